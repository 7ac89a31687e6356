#include "data/batch_buffer.h"

#include "core/backend.h"

namespace tandem::datasets {

BatchLayout::BatchLayout(const Pipeline& pipeline, Index batch_size, bool records) : batch_size_(batch_size) {
  if (records) {
    records_ = add(pipeline.record_shape(), DType::u8);
    windows_ = add({static_cast<Index>(sizeof(ImageWindow))}, DType::u8);
  } else {
    images_ = add(pipeline.output_shape(), pipeline.output_dtype());
  }
  labels_ = add({}, DType::i64);
  indices_ = add({}, DType::i64);
  if (pipeline.mix().any()) soft_targets_ = add({pipeline.classes()}, DType::f32);
}

BatchLayout::Part BatchLayout::add(const Shape& sample, DType dtype) {
  constexpr auto kAlignment = static_cast<Index>(CachingAllocator::kAlignment);
  const Part part{.sample = sample, .dtype = dtype, .offset = bytes_, .present = true};
  const Index bytes = sample.inserted(0, batch_size_).numel() * static_cast<Index>(size_of(dtype));
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return part;
}

BatchParts BatchLayout::parts(const Tensor& block, Index count) const {
  const auto view = [&](const Part& part) {
    if (!part.present) return Tensor();
    return Tensor::over(block.storage(), static_cast<std::size_t>(part.offset),
                        part.sample.inserted(0, count), part.dtype);
  };
  return {.batch = {.images = view(images_),
                    .labels = view(labels_),
                    .soft_targets = view(soft_targets_),
                    .indices = view(indices_)},
          .records = view(records_),
          .windows = view(windows_)};
}

BatchBuffer& BufferPool::take() {
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : buffers_) {
    if (buffer->taken || buffer->block.storage()->use_count() > 1) continue;
    buffer->taken = true;
    // Whoever keeps something derived from the old contents must notice.
    buffer->block.storage()->bump_version();
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
  buffer->block = transfer_memory({bytes_}, DType::u8, device_);
  buffers_.push_back(std::move(buffer));
  return *buffers_.back();
}

void BufferPool::give_back(BatchBuffer& buffer) {
  const std::lock_guard lock(mutex_);
  buffer.taken = false;
}

}  // namespace tandem::datasets
