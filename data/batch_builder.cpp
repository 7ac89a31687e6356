#include "data/batch_builder.h"

#include <cstring>
#include <exception>
#include <mutex>

namespace tandem::datasets {

namespace {

// The error of the lowest position, so that threads do not decide which one is reported.
class FirstError {
 public:
  void note(Index position) {
    const std::lock_guard lock(mutex_);
    if (error_ && position_ < position) return;
    position_ = position;
    error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  Index position_ = 0;
  std::exception_ptr error_;
};

// Writes image `i` of a batch, whichever way its parts keep images.
class ImageWriter {
 public:
  ImageWriter(const BuildContext& context, const BatchParts& parts)
      : pipeline_(context.pipeline), key_{context.seed, context.epoch, 0} {
    if (parts.records.defined()) {
      records_ = parts.records.data<std::uint8_t>();
      windows_ = static_cast<ImageWindow*>(parts.windows.raw());
    } else {
      images_ = static_cast<std::byte*>(parts.batch.images.raw());
    }
  }

  void write(Index i, const Tensor& image, std::uint32_t sample) const {
    DrawKey key = key_;
    key.sample = sample;
    if (images_) {
      const Index elements = pipeline_.output_shape().numel();
      pipeline_.apply(image, key,
                      images_ + static_cast<std::size_t>(i * elements) * size_of(pipeline_.output_dtype()));
    } else {
      windows_[i] = pipeline_.window(image, key);
      std::memcpy(records_ + static_cast<std::size_t>(i) * image.bytes(), image.raw(), image.bytes());
    }
  }

 private:
  const Pipeline& pipeline_;
  DrawKey key_;
  std::byte* images_ = nullptr;
  std::uint8_t* records_ = nullptr;
  ImageWindow* windows_ = nullptr;
};

}  // namespace

void build_batch(const BuildContext& context, std::span<const std::uint32_t> samples, BatchBuffer& buffer) {
  const auto count = static_cast<Index>(samples.size());
  const BatchParts parts = context.layout.parts(buffer.block, count);
  const ImageWriter images(context, parts);
  std::int64_t* labels = parts.batch.labels.data<std::int64_t>();
  std::int64_t* indices = parts.batch.indices.data<std::int64_t>();
  buffer.count = count;
  FirstError error;
  const auto work = [&](Index i) {
    try {
      const std::uint32_t index = samples[static_cast<std::size_t>(i)];
      const Sample sample = context.dataset.get(index);
      images.write(i, sample.image, index);
      labels[i] = sample.label;
      indices[i] = index;
    } catch (...) {
      error.note(i);
    }
  };
  if (!context.parallel) {
    for (Index i = 0; i < count; ++i) work(i);
  } else if (context.dataset.decodes()) {
#pragma omp parallel for schedule(dynamic)
    for (Index i = 0; i < count; ++i) work(i);
  } else {
#pragma omp parallel for schedule(static)
    for (Index i = 0; i < count; ++i) work(i);
  }
  error.rethrow();
  const std::span<const std::int64_t> all_labels(labels, samples.size());
  const bool mixes = context.pipeline.mix().any();
  buffer.weight = context.weigh && !mixes ? context.weigh(all_labels) : static_cast<double>(count);
  if (!mixes) return;
  const Shape& shape = context.pipeline.output_shape();
  mix_batch({.options = context.pipeline.mix(),
             .seed = context.seed,
             .epoch = context.epoch,
             .samples = samples,
             .labels = all_labels,
             .extents = {shape[0], shape[1]},
             .channels = shape[2],
             .classes = context.pipeline.classes(),
             .parallel = context.parallel},
            parts.batch.images.data<float>(), parts.batch.soft_targets.data<float>());
}

}  // namespace tandem::datasets
