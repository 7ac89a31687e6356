// The flat f32 buffers of a training step: masters, gradients and moments of all trainable parameters, one
// buffer each, at fixed addresses.
//
// Parameters lie in reverse registration order, which is about the order their gradients are completed in.
// Every range starts on a 64-byte boundary; the gaps are zero and stay zero.
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
  };

  // Buffers for the trainable ones among `parameters` (in registration order), which stay where they are
  // until `attach`. Throws UserError when there is none, when one is not f32, or when they are on several
  // devices.
  explicit FlatBuffers(const std::vector<Parameter>& parameters);

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
