// Brings batches to a device, the next one's copy beside the step on this one. Used by the one thread that
// drives the device; the threads that fill buffers never ask anything of it.
//
// The tensors of a batch lie in a slot that is used again once no batch shares it. Slots are persistent
// memory, and an upload into one begins when the device has done what was asked for up to the moment at which
// the slot was found free.
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
  // Whether batches need a sender to be what is asked for, rather than being used where they were built.
  static bool needed(const Source& source);

  // The buffers to be sent are of `pool`. Throws UserError when there is no such device.
  BatchSender(const Source& source, BufferPool& pool);
  // Waits for the copies under way: the host memory they read goes to others.
  ~BatchSender();
  BatchSender(const BatchSender&) = delete;
  BatchSender& operator=(const BatchSender&) = delete;

  // Slots in turn where batches are sent ahead: of the batch that is sent, of the one the caller gets, and of
  // the one before, just found free.
  static constexpr std::size_t kSlotsInTurn = 3;
  // Makes slots until there are `count`, so that none is asked for later.
  void reserve(std::size_t count);

  // Buffers that are out of the pool besides those being filled: one in the caller's hand, one being copied.
  static constexpr std::size_t kBuffersUnderWay = 2;
  // Gives the buffers whose copies are done back to the pool, and waits until no more than one is left: to be
  // called before a buffer is taken.
  void settle();
  // The batch in `buffer`, on the device. The buffer returns to the pool when its copy is done, at once when
  // it has no samples, unless this throws.
  Batch send(BatchBuffer& buffer);

 private:
  struct Slot {
    Tensor block;                 // as the buffer's
    std::vector<Tensor> arrived;  // what the arrival makes of it
    // Set when the slot is free: everything asked for before its contents were dropped is done once this
    // event is.
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
  const std::unique_ptr<DevicePreprocess> preprocess_;  // absent: the block's fields are what is asked for
  std::vector<std::unique_ptr<Slot>> slots_;
  std::deque<Upload> uploads_;  // the oldest first
};

}  // namespace tandem::datasets
