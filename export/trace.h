// The ops of one evaluation-mode forward, in the order in which they ran.
//
// The batch of the trace is empty: it costs no arithmetic, and an extent of 0 is the batch wherever it turns
// up. A model of sequences has a number of steps that no extent of its parameters equals, so that it is told
// apart, too. Tensors are known by their place on the tape, which also keeps each op's options (op_of in
// autograd/apply.h), so whatever a module does with public ops is seen, and no layer has to describe itself.
// What is made of integers alone has no such place, and is known by its storage.
#pragma once

#include <string>
#include <vector>

#include "nn/exported.h"
#include "nn/module.h"
#include "nn/ports.h"

namespace tandem::exporting {

struct Call {
  std::string layer;        // path of the innermost module that ran the op; "" for the model itself
  std::string description;  // of that module: "Conv2d(1 → 6, 5×5)"
  const OpInfo* info = nullptr;
  TensorList inputs, outputs;  // in the order of the op's members; an optional input may be absent
};

struct Trace {
  TensorList inputs;
  std::vector<Call> calls;
  TensorList outputs;
  Index steps = 0;  // the extent that stands for the steps of sequences; 0: there is none
};

// On one input [0, sample…]. Every parameter counts as trainable for the time of the trace, so that ops on
// frozen ones are on the tape too. Throws UserError when the model cannot take samples of that shape and
// type.
// `run` is what is traced of it; empty: its call.
Trace trace_evaluation(nn::Module& model, const Shape& sample, DType dtype = DType::f32,
                       const nn::Forward& run = {});
// On what its ports take.
Trace trace_evaluation(nn::Module& model, const nn::Ports& ports);

}  // namespace tandem::exporting
