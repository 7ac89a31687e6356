// Flat f32 buffers of a training step: masters, gradients and moments of all trainable parameters, one buffer
// each, at fixed addresses.
//
// Parameters lie in reverse registration order, which is about the order in which their gradients become
// complete. Every range starts on a 64-byte boundary; the gaps are zero and stay zero.
//
// Sparsely updated tables (embeddings) keep their place and also have row marks: one byte a row, set by the
// op that adds to the row (Leaf::set_gradient_buffer). Marks replace a list of sorted unique row ids with
// sums: nothing is sorted, counted or read back from the device. The buffer always holds the dense gradient,
// so readers that ignore marks (custom clipping, a checkpoint within a step, gradient statistics) work
// unchanged; passes that use them skip unmarked rows. Marks save no memory: the table's gradient takes 4·V·E
// bytes, as much as its masters.
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
    Tensor marks{};              // row marks of a table, u8 [V]; absent: all rows take part in every step
  };

  // Allocates buffers for the trainable ones among `parameters` (in registration order); the parameters move
  // in `attach`. Throws UserError when none is trainable, one is not f32, or they are on several devices.
  explicit FlatBuffers(const std::vector<Parameter>& parameters);

  // Enables row marks for slot number `slot`, a parameter [V,E]. Call before attach().
  void mark_rows_of(std::size_t slot);

  // Moves the parameters into the buffers; keeps values, drops gradients. Allocates no device memory.
  void attach();

  const std::vector<Slot>& slots() const { return slots_; }
  Index length() const { return length_; }  // elements of every buffer
  Device device() const { return masters_.device(); }
  const Tensor& masters() const { return masters_; }
  const Tensor& gradients() const { return gradients_; }

  // Another zeroed buffer of the same layout.
  Tensor make(MemoryKind kind) const;
  // The slot's range of `buffer`, in the shape of its parameter.
  Tensor range(const Tensor& buffer, const Slot& slot) const;

  // Throws UserError when a parameter has moved elsewhere since, e.g. into a second step over the same
  // module.
  void check_attached() const;

 private:
  std::vector<Slot> slots_;
  Index length_ = 0;
  Tensor masters_, gradients_;
};

}  // namespace tandem::optim
