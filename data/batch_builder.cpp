#include "data/batch_builder.h"

#include <algorithm>
#include <exception>

namespace tandem::datasets {

namespace {

bool is_free(const Tensor& tensor) { return !tensor.defined() || tensor.storage()->use_count() == 1; }

Shape batched(const Shape& sample, Index count) { return sample.inserted(0, count); }

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

}  // namespace

Batch BatchBuffer::batch(Index count) const {
  const auto first = [&](const Tensor& tensor) {
    return tensor.defined() && tensor.shape()[0] != count ? tensor.rows(0, count) : tensor;
  };
  return {first(images), first(labels), first(soft_targets), first(indices)};
}

BatchBuffer& BufferPool::take() {
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : buffers_) {
    if (buffer->taken || !is_free(buffer->images) || !is_free(buffer->labels) ||
        !is_free(buffer->soft_targets) || !is_free(buffer->indices)) {
      continue;
    }
    buffer->taken = true;
    // Whoever keeps something derived from the old contents must notice.
    buffer->images.storage()->bump_version();
    buffer->labels.storage()->bump_version();
    if (buffer->soft_targets.defined()) buffer->soft_targets.storage()->bump_version();
    return *buffer;
  }
  BatchBuffer& buffer = add();
  buffer.taken = true;
  return buffer;
}

void BufferPool::reserve(std::size_t count) {
  const std::lock_guard lock(mutex_);
  while (buffers_.size() < count) add();
}

BatchBuffer& BufferPool::add() {
  auto buffer = std::make_unique<BatchBuffer>();
  const MemoryKind kind = MemoryKind::data;
  buffer->images = Tensor::empty(batched(sample_shape_, batch_size_), {.dtype = DType::f32, .kind = kind});
  buffer->labels = Tensor::empty({batch_size_}, {.dtype = DType::i64, .kind = kind});
  buffer->indices = Tensor::empty({batch_size_}, {.dtype = DType::i64, .kind = kind});
  if (soft_classes_ > 0) {
    buffer->soft_targets = Tensor::empty({batch_size_, soft_classes_}, {.dtype = DType::f32, .kind = kind});
  }
  buffers_.push_back(std::move(buffer));
  return *buffers_.back();
}

void BufferPool::give_back(BatchBuffer& buffer) {
  const std::lock_guard lock(mutex_);
  buffer.taken = false;
}

void build_batch(const BuildContext& context, std::span<const std::uint32_t> samples, BatchBuffer& buffer) {
  const auto count = static_cast<Index>(samples.size());
  const Shape& shape = context.pipeline.output_shape();
  float* images = buffer.images.data<float>();
  std::int64_t* labels = buffer.labels.data<std::int64_t>();
  std::int64_t* indices = buffer.indices.data<std::int64_t>();
  FirstError error;
  const auto work = [&](Index i) {
    try {
      const std::uint32_t index = samples[static_cast<std::size_t>(i)];
      const Sample sample = context.dataset.get(index);
      context.pipeline.apply(sample.image, {context.seed, context.epoch, index}, images + i * shape.numel());
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
  if (!context.pipeline.mix().any()) return;
  mix_batch({.options = context.pipeline.mix(),
             .seed = context.seed,
             .epoch = context.epoch,
             .samples = samples,
             .labels = {labels, samples.size()},
             .extents = {shape[0], shape[1]},
             .channels = shape[2],
             .classes = context.pipeline.classes(),
             .parallel = context.parallel},
            images, buffer.soft_targets.data<float>());
}

}  // namespace tandem::datasets
