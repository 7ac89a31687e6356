#include "data/batch_sender.h"

#include <algorithm>

#include "core/backend.h"
#include "core/error.h"

namespace tandem::datasets {

namespace {

Shape padded(const Shape& shape, Index multiple) {
  if (shape.rank() != 3) return shape;
  return shape.with(2, (shape[2] + multiple - 1) / multiple * multiple);
}

Tensor first_rows(const Tensor& tensor, Index count) {
  return tensor.shape()[0] == count ? tensor : tensor.rows(0, count);
}

// x [.., C] → y [.., C'] of one dtype; the channels beyond C stay as they are.
void copy_channels(Backend& backend, const Tensor& x, const Tensor& y) {
  const Index channels = x.size(-1);
  StridedView from, to;
  from.strides = {channels, 1};
  to.strides = {y.size(-1), 1};
  backend.strided_copy(x, from, y, to, {x.numel() / channels, channels});
}

}  // namespace

bool BatchSender::needed(const Pipeline& pipeline, const Target& target) {
  const Shape& shape = pipeline.output_shape();
  return target.device.type != DeviceType::cpu || target.dtype != pipeline.output_dtype() ||
         padded(shape, target.channel_multiple) != shape;
}

BatchSender::BatchSender(const Pipeline& pipeline, const BatchLayout& layout, const Target& target,
                         BufferPool& pool)
    : pipeline_(pipeline),
      layout_(layout),
      target_(target),
      pool_(pool),
      backend_(backend_for(target.device)),
      shape_(padded(pipeline.output_shape(), target.channel_multiple)),
      in_place_(!layout.has_records() && target.dtype == pipeline.output_dtype() &&
                shape_ == pipeline.output_shape()) {
  if (!layout.has_records()) return;
  const Affine& affine = pipeline.affine();
  affine_ = {Tensor::from(affine.scale, {affine.channels()}, target.device),
             Tensor::from(affine.offset, {affine.channels()}, target.device)};
}

BatchSender::~BatchSender() {
  try {
    if (!uploads_.empty()) backend_.wait_for(uploads_.back().mark);
  } catch (const std::exception&) {
    // A device that has failed copies no more, and says so to the next who asks it for something. A kernel's
    // bad index was of a batch that is let go with its loader.
  }
}

void BatchSender::settle() {
  while (!uploads_.empty()) {
    const Upload& oldest = uploads_.front();
    if (uploads_.size() >= kBuffersUnderWay) backend_.wait_for(oldest.mark);
    if (!backend_.reached(oldest.mark)) return;
    pool_.give_back(*oldest.buffer);
    uploads_.pop_front();
  }
}

bool BatchSender::Slot::is_shared() const {
  return block.storage()->use_count() > 1 || (images.defined() && images.storage()->use_count() > 1);
}

void BatchSender::reserve(std::size_t count) {
  while (slots_.size() < count) add_slot();
}

BatchSender::Slot& BatchSender::add_slot() {
  auto slot = std::make_unique<Slot>();
  const auto memory = [&](const Shape& shape, DType dtype) {
    return Tensor::empty(shape, {.dtype = dtype, .device = target_.device, .kind = MemoryKind::data});
  };
  slot->block = memory({layout_.bytes()}, DType::u8);
  if (!in_place_) {
    const Index batch_size = layout_.batch_size();
    slot->images = memory(shape_.inserted(0, batch_size), target_.dtype);
    const bool pads = shape_ != pipeline_.output_shape();
    if (pads && !layout_.has_records()) {
      backend_.fill(slot->images, 0.0);  // what lies beyond the channels is never written again
      if (target_.dtype != DType::f32) {
        slot->narrow = memory(pipeline_.output_shape().inserted(0, batch_size), target_.dtype);
      }
    }
  }
  // The allocator may have handed out memory that the device still uses.
  slot->free_since = backend_.mark();
  slots_.push_back(std::move(slot));
  return *slots_.back();
}

// The slot that has been known to be free for longest: the copy into it has least to wait for. One that is
// found free only now would have to wait for everything that was asked for.
BatchSender::Slot& BatchSender::take_slot() {
  Slot* oldest = nullptr;
  for (const auto& slot : slots_) {
    if (slot->free_since && (!oldest || *slot->free_since < *oldest->free_since)) oldest = slot.get();
  }
  Slot& slot = oldest ? *oldest : add_slot();
  // Whoever keeps something derived from the old contents must notice.
  slot.block.storage()->bump_version();
  if (slot.images.defined()) slot.images.storage()->bump_version();
  return slot;
}

Batch BatchSender::finish(const Slot& slot, Index count) const {
  const BatchParts parts = layout_.parts(slot.block, count);
  if (in_place_) return parts.batch;
  Batch batch = parts.batch;
  batch.images = first_rows(slot.images, count);
  if (layout_.has_records()) {
    const Shape& window = pipeline_.window_shape();
    const Shape shape{count, window[0], window[1], batch.images.numel() / (count * window[0] * window[1])};
    backend_.render_images(parts.records, parts.windows, affine_, batch.images.viewed(shape));
  } else if (shape_ == pipeline_.output_shape()) {
    backend_.cast(parts.batch.images, batch.images);
  } else if (!slot.narrow.defined()) {
    copy_channels(backend_, parts.batch.images, batch.images);
  } else {
    const Tensor narrow = first_rows(slot.narrow, count);
    backend_.cast(parts.batch.images, narrow);
    copy_channels(backend_, narrow, batch.images);
  }
  return batch;
}

Batch BatchSender::send(BatchBuffer& buffer) {
  std::vector<Slot*> freed;
  for (const auto& slot : slots_) {
    if (!slot->free_since && !slot->is_shared()) freed.push_back(slot.get());
  }
  Slot& slot = take_slot();
  backend_.upload(buffer.block, slot.block, *slot.free_since);
  slot.free_since.reset();
  Batch batch = finish(slot, buffer.count);
  const std::uint64_t mark = backend_.mark();
  for (Slot* free : freed) free->free_since = mark;
  uploads_.push_back({&buffer, mark});
  return batch;
}

}  // namespace tandem::datasets
