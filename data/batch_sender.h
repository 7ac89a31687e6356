// Copies batches to a device while the current step computes. Only the thread that drives the device uses it;
// the threads that fill buffers do not.
//
// The tensors of a batch lie in a slot, which is reused once no batch shares it. Slots are persistent memory.
// An upload into a slot waits for the work that the device had in its queue when the slot was found free.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/backend.h"
#include "data/batch_memory.h"
#include "data/source.h"

namespace tandem::datasets {

class BatchSender {
 public:
  // False if batches are used where they were built.
  static bool needed(const Source& source);

  // Sends buffers of `pool`. Throws UserError when there is no such device.
  BatchSender(const Source& source, BufferPool& pool);
  // Waits for the copies under way, which read memory of the pool.
  ~BatchSender();
  BatchSender(const BatchSender&) = delete;
  BatchSender& operator=(const BatchSender&) = delete;

  // Slots needed to send ahead: the batch being sent, the caller's batch, and the previous one, which has
  // just become free.
  static constexpr std::size_t kSlotsInTurn = 3;
  // Allocates until there are `count` slots.
  void reserve(std::size_t count);

  // Buffers outside the pool besides those being filled: the caller's and the one being copied.
  static constexpr std::size_t kBuffersUnderWay = 2;
  // Returns buffers whose copies are done to the pool, and waits until at most one is left. Call it before
  // taking a buffer.
  void settle();
  // The batch in `buffer`, on the device. The buffer returns to the pool when its copy is done, or at once if
  // it has no samples. If this throws, the caller keeps the buffer.
  Batch send(BatchBuffer& buffer);

 private:
  struct Slot {
    Tensor block;                      // layout of the buffer's block
    std::vector<Tensor> preprocessed;  // output of the DevicePreprocess
    // Set when the slot is free: once this event is done, so is all work enqueued before the slot became
    // free.
    std::optional<std::uint64_t> free_since;

    bool is_shared() const;
  };
  struct Upload {
    BatchBuffer* buffer;
    std::uint64_t event;  // done after the copy
  };

  Slot& take_slot();
  Slot& add_slot();

  const Source& source_;
  BufferPool& pool_;
  Backend& backend_;
  const std::unique_ptr<DevicePreprocess> preprocess_;  // absent: the fields are used as sent
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Upload> uploads_;  // oldest first
};

}  // namespace tandem::datasets
