#include "data/batch_memory.h"

#include <algorithm>

#include "core/backend.h"
#include "core/error.h"

namespace tandem::datasets {

void BatchLayout::add(std::string name, const Shape& sample, DType dtype) {
  add_part({.name = std::move(name), .full = sample.inserted(0, samples_), .dtype = dtype});
}

void BatchLayout::add_whole(std::string name, const Shape& full, DType dtype) {
  add_part({.name = std::move(name), .full = full, .dtype = dtype, .by_sample = false});
}

void BatchLayout::add_part(Part part) {
  constexpr auto kAlignment = static_cast<Index>(CachingAllocator::kAlignment);
  part.offset = bytes_;
  const Index bytes = part.full.numel() * static_cast<Index>(size_of(part.dtype));
  bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  parts_.push_back(std::move(part));
}

std::size_t BatchLayout::index_of(std::string_view name) const {
  const auto found = std::ranges::find(parts_, name, &Part::name);
  ensure(found != parts_.end(), "batch", "the layout has no field \"{}\"", name);
  return static_cast<std::size_t>(found - parts_.begin());
}

void BatchBuffer::begin(Index samples, Index first) {
  ensure(samples >= 0 && samples <= layout_->samples(), "batch", "{} samples, there is room for {}", samples,
         layout_->samples());
  shapes_.clear();
  if (samples > 0) {
    for (const BatchLayout::Part& part : layout_->parts())
      shapes_.push_back(part.by_sample ? part.full.with(0, samples) : part.full);
  }
  samples_ = samples;
  first_ = first;
  weight_ = static_cast<double>(samples);
  rate_factor_ = 1.0;
}

Tensor BatchBuffer::field(std::string_view name) const {
  const std::size_t i = layout_->index_of(name);
  ensure(i < shapes_.size(), "batch", "{} of a batch without samples", name);
  const BatchLayout::Part& part = layout_->parts()[i];
  return Tensor::over(block_.storage(), static_cast<std::size_t>(part.offset), shapes_[i], part.dtype);
}

Tensor BatchBuffer::field(std::string_view name, const Shape& shape) {
  const std::size_t i = layout_->index_of(name);
  ensure(i < shapes_.size(), "batch", "{} of a batch without samples", name);
  ensure(shape.numel() <= layout_->parts()[i].full.numel(), "batch", "{} {} exceeds {}", name,
         to_string(shape), to_string(layout_->parts()[i].full));
  shapes_[i] = shape;
  return field(name);
}

Batch BatchBuffer::in(const Tensor& block) const {
  std::vector<Field> fields;
  fields.reserve(shapes_.size());
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const BatchLayout::Part& part = layout_->parts()[i];
    fields.push_back({part.name, Tensor::over(block.storage(), static_cast<std::size_t>(part.offset),
                                              shapes_[i], part.dtype)});
    if (part.on_host && block.device() != Device{})
      fields.back().twin = field(part.name).clone(MemoryKind::data);
  }
  Batch batch(std::move(fields), samples_);
  batch.first = first_;
  batch.weight = weight_;
  batch.rate_factor = rate_factor_;
  return batch;
}

BatchBuffer& BufferPool::take() {
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : buffers_) {
    if (buffer->taken_ || buffer->block_.storage()->use_count() > 1) continue;
    buffer->taken_ = true;
    // Values cached from the old contents are stale.
    buffer->block_.storage()->bump_version();
    return *buffer;
  }
  BatchBuffer& buffer = add();
  buffer.taken_ = true;
  return buffer;
}

void BufferPool::reserve(std::size_t count) {
  const std::lock_guard lock(mutex_);
  while (buffers_.size() < count) add();
}

BatchBuffer& BufferPool::add() {
  buffers_.push_back(
      std::make_unique<BatchBuffer>(layout_, transfer_memory({layout_.bytes()}, DType::u8, device_)));
  return *buffers_.back();
}

void BufferPool::give_back(BatchBuffer& buffer) {
  const std::lock_guard lock(mutex_);
  buffer.taken_ = false;
}

}  // namespace tandem::datasets
