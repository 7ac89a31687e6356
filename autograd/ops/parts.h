// Input, saved and output structs shared by several op families.
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
struct OutputGradient {
  Tensor dy;
};
struct InputGradient {
  Tensor dx;
};

// Destination of an extra result of the current call; copies of the op, such as the tape's, drop it.
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
