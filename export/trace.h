// The ops of one evaluation-mode forward, in the order in which they ran.
//
// The batch of the trace is empty: it costs no arithmetic, and an extent of 0 is the batch wherever it turns
// up. Tensors are told apart by their place on the tape, which also keeps each op's options (op_of in
// autograd/apply.h), so whatever a module does with public ops is seen, and no layer has to describe itself.
// An input of integers has no such place: ops that take nothing else are not seen.
#pragma once

#include <string>
#include <vector>

#include "nn/module.h"

namespace tandem::exporting {

struct Call {
  std::string layer;        // path of the innermost module that ran the op; "" for the model itself
  std::string description;  // of that module: "Conv2d(1 → 6, 5×5)"
  const OpInfo* info = nullptr;
  TensorList inputs, outputs;  // in the order of the op's members; an optional input may be absent
};

struct Trace {
  Tensor input;  // [0, sample…]
  std::vector<Call> calls;
  Tensor output;
};

// Every parameter counts as trainable for the time of the trace, so that ops on frozen ones are on the tape
// too. Throws UserError when the model cannot take samples of that shape and type.
Trace trace_evaluation(nn::Module& model, const Shape& sample, DType dtype = DType::f32);

}  // namespace tandem::exporting
