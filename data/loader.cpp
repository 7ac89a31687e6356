#include "data/loader.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "data/batch_builder.h"
#include "data/batch_sender.h"
#include "data/decorators.h"
#include "data/limits.h"
#include "data/prefetcher.h"

namespace tandem::datasets {

Batch Batch::to(Device device) const {
  const auto moved = [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(device) : tensor; };
  return {moved(images), moved(labels), moved(soft_targets), moved(indices), weight};
}

class Loader::Impl {
 public:
  Impl(DatasetPtr dataset, Pipeline pipeline, LoaderOptions options)
      : dataset_(std::move(dataset)),
        pipeline_(std::move(pipeline)),
        options_(std::move(options)),
        layout_(pipeline_, options_.batch_size, sends() && pipeline_.takes_windows()),
        pool_(layout_.bytes(), options_.device) {
    if (sends()) sender_.emplace(pipeline_, layout_, target(), pool_);
  }

  std::optional<Batch> next() {
    const Index count = next_count();
    if (count == 0) {
      seek({state_.epoch + 1, 0});
      return std::nullopt;
    }
    Batch batch = ahead_ ? std::move(*ahead_) : fetch();
    ahead_.reset();
    state_.position += count;
    look_ahead();
    return batch;
  }

  void seek(const LoaderState& state) {
    require(state.position >= 0 && state.position <= dataset_->size(), "loader",
            "position {} lies beyond the data set's {} samples", state.position, dataset_->size());
    prefetcher_.reset();
    ahead_.reset();
    if (state.epoch != state_.epoch) order_.clear();
    state_ = state;
  }

  const DatasetPtr dataset_;
  const Pipeline pipeline_;
  const LoaderOptions options_;
  LoaderState state_;

 private:
  // Samples of the next batch; 0 at the end of the epoch.
  Index next_count() const { return count_at(state_.position); }
  Index count_at(Index position) const {
    const Index left = dataset_->size() - position;
    return options_.drop_last && left < options_.batch_size ? 0 : std::min(left, options_.batch_size);
  }

  const std::vector<std::uint32_t>& order() {
    if (!order_.empty()) return order_;
    if (options_.shuffle) {
      order_ = permutation(dataset_->size(), options_.seed, state_.epoch);
    } else {
      order_.resize(static_cast<std::size_t>(dataset_->size()));
      std::iota(order_.begin(), order_.end(), 0U);
    }
    return order_;
  }

  // The batch that starts at `at`, in a buffer that stays taken.
  BatchBuffer& build(const LoaderState& at, Index count, bool parallel) {
    const std::span<const std::uint32_t> samples =
        std::span(order()).subspan(static_cast<std::size_t>(at.position), static_cast<std::size_t>(count));
    BatchBuffer& buffer = pool_.take();
    try {
      build_batch({*dataset_, pipeline_, layout_, options_.seed, at.epoch, parallel, options_.weigh}, samples,
                  buffer);
    } catch (...) {
      pool_.give_back(buffer);
      throw;
    }
    return buffer;
  }

  BatchSender::Target target() const {
    const bool indices = pipeline_.output_dtype() == DType::i64;
    return {options_.device, indices ? DType::i64 : options_.dtype, options_.channel_multiple};
  }
  bool sends() const { return BatchSender::needed(pipeline_, target()); }

  // The batch at state_. After an error the next call starts again there.
  Batch fetch() {
    try {
      if (sender_) sender_->settle();
      return options_.threads > 0 ? arrived(prefetched()) : arrived(build(state_, next_count(), true));
    } catch (...) {
      prefetcher_.reset();
      throw;
    }
  }

  // The batch in `buffer` where it is wanted.
  Batch arrived(BatchBuffer& buffer) {
    const double weight = buffer.weight;
    if (!sender_) {
      Batch batch = layout_.parts(buffer.block, buffer.count).batch;
      batch.weight = weight;
      pool_.give_back(buffer);
      return batch;
    }
    try {
      Batch batch = sender_->send(buffer);
      batch.weight = weight;
      return batch;
    } catch (...) {
      pool_.give_back(buffer);
      throw;
    }
  }

  // Starts the copy of the batch at state_ when its buffer is ready. An error waits for the call that asks
  // for this batch, which starts again here and meets it.
  void look_ahead() {
    if (!sender_ || !prefetcher_ || !prefetcher_->ready()) return;
    try {
      ahead_ = fetch();
    } catch (...) {
    }
  }

  BatchBuffer& prefetched() {
    if (!prefetcher_) start_prefetcher();
    return *prefetcher_->take();
  }

  void start_prefetcher() {
    order();  // made before the threads read it
    const LoaderState start = state_;
    const Index left = dataset_->size() - start.position;
    const Index batches = options_.drop_last ? left / options_.batch_size
                                             : (left + options_.batch_size - 1) / options_.batch_size;
    // All the memory that can be in use at once, so that none is asked for later, by the threads above all:
    // the batches ahead, and those being sent or the one the caller holds.
    pool_.reserve(static_cast<std::size_t>(std::min<Index>(options_.threads + options_.prefetch, batches)) +
                  (sender_ ? BatchSender::kBuffersUnderWay : 1));
    if (sender_) sender_->reserve(BatchSender::kSlotsInTurn);
    prefetcher_.emplace(Prefetcher::Work{
        .batches = batches,
        .threads = static_cast<int>(std::min<Index>(options_.threads, batches)),
        .ahead = options_.prefetch,
        .build =
            [this, start](Index number) {
              const Index position = start.position + number * options_.batch_size;
              return &build({start.epoch, position}, count_at(position), false);
            },
        .give_back = [this](BatchBuffer* buffer) { pool_.give_back(*buffer); },
    });
  }

  std::vector<std::uint32_t> order_;  // of state_.epoch; empty until needed
  BatchLayout layout_;
  BufferPool pool_;
  std::optional<BatchSender> sender_;     // absent: batches are used where they were built
  std::optional<Batch> ahead_;            // the batch at state_, on its way to the device
  std::optional<Prefetcher> prefetcher_;  // last: its threads use everything above
};

Loader::Loader(DatasetPtr dataset, Pipeline pipeline, LoaderOptions options) {
  require(options.batch_size >= 1, "loader", "a batch size of {} is not positive", options.batch_size);
  require(options.threads >= 0 && options.threads <= 256, "loader", "{} threads, expected 0 to 256",
          options.threads);
  require(options.prefetch >= 0 && options.prefetch <= 1024, "loader", "prefetch is {}, expected 0 to 1024",
          options.prefetch);
  require(is_floating(options.dtype), "loader", "images of {}, expected a floating type",
          name_of(options.dtype));
  require(options.channel_multiple >= 1 && options.channel_multiple <= 4096, "loader",
          "channels to a multiple of {}, expected 1 to 4096", options.channel_multiple);
  require(options.channel_multiple == 1 || pipeline.output_shape().rank() == 3, "loader",
          "channels to a multiple of {} are for images [H,W,C]; the samples of {} are {}",
          options.channel_multiple, dataset->info().name, to_string(pipeline.output_shape()));
  const Index size = dataset->size();
  require(size > 0 && size <= kMaxSamples, "loader", "{} has {} samples", dataset->info().name, size);
  require(!options.drop_last || size >= options.batch_size, "loader",
          "{} has {} samples, less than one batch of {}; drop_last leaves nothing", dataset->info().name,
          size, options.batch_size);
  // A full batch never holds more than the data set does.
  options.batch_size = std::min(options.batch_size, size);
  impl_ = std::make_unique<Impl>(std::move(dataset), std::move(pipeline), std::move(options));
}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

std::optional<Batch> Loader::next() { return impl_->next(); }
LoaderState Loader::state() const { return impl_->state_; }
void Loader::seek(const LoaderState& state) { impl_->seek(state); }
const Dataset& Loader::dataset() const { return *impl_->dataset_; }
const Pipeline& Loader::pipeline() const { return impl_->pipeline_; }
const LoaderOptions& Loader::options() const { return impl_->options_; }

Index Loader::samples_per_epoch() const {
  const Index size = dataset().size();
  return options().drop_last ? size / options().batch_size * options().batch_size : size;
}
Index Loader::batches_per_epoch() const {
  return (samples_per_epoch() + options().batch_size - 1) / options().batch_size;
}

}  // namespace tandem::datasets
