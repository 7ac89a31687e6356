#include "data/loader.h"

#include <algorithm>

#include "core/error.h"
#include "data/batch_sender.h"
#include "data/prefetcher.h"

namespace tandem::datasets {

class Loader::Impl {
 public:
  Impl(SourcePtr source, Ahead ahead)
      : source_(std::move(source)), options_(ahead), pool_(source_->layout(), source_->device()) {
    if (BatchSender::needed(*source_)) sender_.emplace(*source_, pool_);
  }

  std::optional<Batch> next() {
    if (at_.number == source_->batches(at_.epoch)) {
      move_to({at_.epoch + 1, 0});
      return std::nullopt;
    }
    Batch batch = ahead_ ? std::move(*ahead_) : fetch();
    ahead_.reset();
    ++at_.number;
    look_ahead();
    return batch;
  }

  LoaderState state() const { return {at_.epoch, source_->samples_before(at_)}; }

  void seek(const LoaderState& state) {
    const Index batches = source_->batches(state.epoch);
    BatchKey key{state.epoch, 0};
    while (key.number < batches && source_->samples_before(key) < state.position) ++key.number;
    require(state.position >= 0 && state.position <= source_->samples_before(key), "loader",
            "position {} lies beyond the data set's {} samples", state.position,
            source_->samples_before({state.epoch, batches}));
    move_to(key);
  }

  const SourcePtr source_;
  BatchKey at_;  // next batch

 private:
  void move_to(const BatchKey& key) {
    prefetcher_.reset();
    ahead_.reset();
    at_ = key;
  }

  // Fills a buffer that stays taken.
  BatchBuffer& build(const BatchKey& key, bool parallel) {
    BatchBuffer& buffer = pool_.take();
    try {
      source_->fill(key, parallel, buffer);
    } catch (...) {
      pool_.give_back(buffer);
      throw;
    }
    return buffer;
  }

  // The batch at at_. After an error, the next call retries it.
  Batch fetch() {
    try {
      if (sender_) sender_->settle();
      return options_.threads > 0 ? on_device(prefetched()) : on_device(build(at_, true));
    } catch (...) {
      prefetcher_.reset();
      throw;
    }
  }

  // The batch in `buffer`, on the requested device.
  Batch on_device(BatchBuffer& buffer) {
    if (!sender_) {
      Batch batch = buffer.in(buffer.block());
      pool_.give_back(buffer);
      return batch;
    }
    try {
      return sender_->send(buffer);
    } catch (...) {
      pool_.give_back(buffer);
      throw;
    }
  }

  // Starts the copy of the batch at at_ if its buffer is ready. An error is raised by the call that asks for
  // this batch, which retries it.
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
    const BatchKey start = at_;
    const Index batches = source_->batches(start.epoch) - start.number;
    // Allocates all buffers in advance: those of the prefetcher, and those being sent or held by the caller.
    pool_.reserve(static_cast<std::size_t>(std::min<Index>(options_.threads + options_.prefetch, batches)) +
                  (sender_ ? BatchSender::kBuffersUnderWay : 1));
    if (sender_) sender_->reserve(BatchSender::kSlotsInTurn);
    prefetcher_.emplace(Prefetcher::Work{
        .batches = batches,
        .threads = static_cast<int>(std::min<Index>(options_.threads, batches)),
        .ahead = options_.prefetch,
        .build =
            [this, start](Index number) {
              return &build({start.epoch, start.number + number}, false);
            },
        .give_back = [this](BatchBuffer* buffer) { pool_.give_back(*buffer); },
    });
  }

  const Ahead options_;
  BufferPool pool_;
  std::optional<BatchSender> sender_;     // absent: batches are used where they were built
  std::optional<Batch> ahead_;            // batch at at_, on its way to the device
  std::optional<Prefetcher> prefetcher_;  // last: its threads use all members above
};

Loader::Loader(SourcePtr source, Ahead options) {
  require(options.threads >= 0 && options.threads <= 256, "loader", "{} threads, expected 0 to 256",
          options.threads);
  require(options.prefetch >= 0 && options.prefetch <= 1024, "loader", "prefetch is {}, expected 0 to 1024",
          options.prefetch);
  require(source->batches(0) > 0, "loader", "there is no batch to serve");
  impl_ = std::make_unique<Impl>(std::move(source), options);
}
Loader::Loader(DatasetPtr dataset, Pipeline pipeline, LoaderOptions options)
    : Loader(std::make_shared<SampleSource>(std::move(dataset), std::move(pipeline),
                                            SampleOptions{.batch_size = options.batch_size,
                                                          .shuffle = options.shuffle,
                                                          .drop_last = options.drop_last,
                                                          .seed = options.seed,
                                                          .device = options.device,
                                                          .dtype = options.dtype,
                                                          .weigh = std::move(options.weigh)}),
             Ahead{options.threads, options.prefetch}) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

std::optional<Batch> Loader::next() { return impl_->next(); }
LoaderState Loader::state() const { return impl_->state(); }
Index Loader::batches_served() const { return impl_->at_.number; }
void Loader::seek(const LoaderState& state) { impl_->seek(state); }
const Source& Loader::source() const { return *impl_->source_; }
Index Loader::batches_per_epoch() const { return source().batches(impl_->at_.epoch); }
Index Loader::samples_per_epoch() const {
  return source().samples_before({impl_->at_.epoch, batches_per_epoch()});
}

}  // namespace tandem::datasets
