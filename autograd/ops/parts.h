// The tensors that op structs of several families take, keep and give.
#pragma once

#include "core/tensor.h"

namespace tandem::ops {

struct Operand {
  Tensor x;
};
struct Result {
  Tensor y;
};
struct Nothing {};

// Where an op puts a result beside its outputs, for the call at hand: copies of the op, such as the tape's,
// do not have it.
class CallResult {
 public:
  explicit CallResult(Tensor* result = nullptr) : result_(result) {}
  CallResult(const CallResult&) {}
  CallResult& operator=(const CallResult&) = delete;
  bool wanted() const { return result_ != nullptr; }
  void set(const Tensor& result) const { *result_ = result; }

 private:
  Tensor* result_ = nullptr;
};

}  // namespace tandem::ops
