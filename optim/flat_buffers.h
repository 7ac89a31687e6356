// The flat f32 buffers of a training step: masters, gradients and moments of all trainable parameters, one
// buffer each, at fixed addresses.
//
// Parameters lie in reverse registration order, which is about the order their gradients are completed in.
// Every range starts on a 64-byte boundary; the gaps are zero and stay zero.
//
// Tables of which a step touches few rows (embeddings) keep their place, and have marks besides: a byte a
// row, set by the op that adds to the row (Leaf::set_gradient_buffer). What a table of sorted unique ids,
// sums of rows and their count would say is there: the marks are the ids, in order and once each, the sums
// lie in the buffer, and nothing has to be sorted, counted or read back from the device. The buffer holds the
// dense gradient at any time, so whoever does not know of marks (a clipping of one's own, a checkpoint in the
// middle of a step, statistics of gradients) reads what it always read; passes that do know leave unmarked
// rows out. Only memory is not saved: 4·V·E bytes, as much as the masters have.
#pragma once

#include <string>
#include <vector>

#include "autograd/leaf.h"

namespace tandem::optim {

class FlatBuffers {
 public:
  struct Slot {
    Parameter parameter;
    Index first = 0, count = 0;  // elements
    Tensor marks{};              // of a table's rows, u8 [V]; absent where all rows take part in every step
  };

  // Buffers for the trainable ones among `parameters` (in registration order), which stay where they are
  // until `attach`. Throws UserError when there is none, when one is not f32, or when they are on several
  // devices.
  explicit FlatBuffers(const std::vector<Parameter>& parameters);

  // The rows of slot number `slot`, a parameter [V,E], are marked from attach() on, which it precedes.
  void mark_rows_of(std::size_t slot);

  // Moves the parameters into the buffers; values are kept, gradients are dropped. Asks for no memory of the
  // device.
  void attach();

  const std::vector<Slot>& slots() const { return slots_; }
  Index length() const { return length_; }  // elements of every buffer
  Device device() const { return masters_.device(); }
  const Tensor& masters() const { return masters_; }
  const Tensor& gradients() const { return gradients_; }

  // Another buffer of the same layout, zero.
  Tensor make(MemoryKind kind) const;
  // The part of `buffer` that belongs to a slot, in the shape of its parameter.
  Tensor range(const Tensor& buffer, const Slot& slot) const;

  // Throws UserError when a parameter was moved elsewhere since, as a second step over the same module does.
  void check_attached() const;

 private:
  std::vector<Slot> slots_;
  Index length_ = 0;
  Tensor masters_, gradients_;
};

}  // namespace tandem::optim
