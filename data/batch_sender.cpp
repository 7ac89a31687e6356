#include "data/batch_sender.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::datasets {

bool BatchSender::needed(const Source& source) {
  return source.device().type != DeviceType::cpu || source.device_preprocess() != nullptr;
}

BatchSender::BatchSender(const Source& source, BufferPool& pool)
    : source_(source),
      pool_(pool),
      backend_(backend_for(source.device())),
      preprocess_(source.device_preprocess()) {}

BatchSender::~BatchSender() {
  try {
    if (!uploads_.empty()) backend_.wait_event(uploads_.back().event);
  } catch (const std::exception&) {
    // A failed device copies nothing more, and reports its error on the next call. A kernel's index error
    // belongs to a batch that is dropped with its loader.
  }
}

void BatchSender::settle() {
  while (!uploads_.empty()) {
    const Upload& oldest = uploads_.front();
    if (uploads_.size() >= kBuffersUnderWay) backend_.wait_event(oldest.event);
    if (!backend_.event_done(oldest.event)) return;
    pool_.give_back(*oldest.buffer);
    uploads_.pop_front();
  }
}

bool BatchSender::Slot::is_shared() const {
  const auto shared = [](const Tensor& tensor) { return tensor.storage()->use_count() > 1; };
  return shared(block) || std::ranges::any_of(preprocessed, shared);
}

void BatchSender::reserve(std::size_t count) {
  while (slots_.size() < count) add_slot();
}

BatchSender::Slot& BatchSender::add_slot() {
  auto slot = std::make_unique<Slot>();
  slot->block = Tensor::empty({source_.layout().bytes()},
                              {.dtype = DType::u8, .device = source_.device(), .kind = MemoryKind::data});
  if (preprocess_) slot->preprocessed = preprocess_->memory();
  // The device may still use memory that the allocator hands out.
  slot->free_since = backend_.record_event();
  slots_.push_back(std::move(slot));
  return *slots_.back();
}

// Returns the slot that has been free for longest, because its upload waits for the least work. A slot found
// free just now would wait for all work enqueued so far.
BatchSender::Slot& BatchSender::take_slot() {
  Slot* oldest = nullptr;
  for (const auto& slot : slots_) {
    if (slot->free_since && (!oldest || *slot->free_since < *oldest->free_since)) oldest = slot.get();
  }
  Slot& slot = oldest ? *oldest : add_slot();
  // Values cached from the old contents are stale.
  slot.block.storage()->bump_version();
  for (const Tensor& tensor : slot.preprocessed) tensor.storage()->bump_version();
  return slot;
}

Batch BatchSender::send(BatchBuffer& buffer) {
  if (buffer.samples() == 0) {
    pool_.give_back(buffer);
    return buffer.in(buffer.block());
  }
  std::vector<Slot*> freed;
  for (const auto& slot : slots_) {
    if (!slot->free_since && !slot->is_shared()) freed.push_back(slot.get());
  }
  Slot& slot = take_slot();
  backend_.upload(buffer.block(), slot.block, *slot.free_since);
  slot.free_since.reset();
  Batch batch = buffer.in(slot.block);
  if (preprocess_) batch = preprocess_->finish(std::move(batch), slot.preprocessed);
  const std::uint64_t event = backend_.record_event();
  for (Slot* free : freed) free->free_since = event;
  uploads_.push_back({&buffer, event});
  return batch;
}

}  // namespace tandem::datasets
