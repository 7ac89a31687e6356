// Trace of the ops of one forward in evaluation mode, in the order of execution.
//
// The batch of the trace is empty, so it costs no arithmetic, and an extent of 0 always is the batch. Other
// dynamic extents differ from all extents of the parameters and constants, so that they can be recognised.
// Tensors are identified by their place on the tape, which also stores each op's options (op_of in
// autograd/apply.h), so all public ops are seen without descriptions by layers. Tensors derived only from
// integers are not on the tape, and are identified by their storage.
#pragma once

#include <string>
#include <vector>

#include "export/free_extents.h"
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
  FreeExtents free{};
};

// Traces one input [0, sample…]. Every parameter is trainable during the trace, so that ops on frozen ones
// are on the tape. Throws UserError if the model does not accept samples of that shape and type. `run`: the
// traced forward; empty: the model's call.
Trace trace_evaluation(nn::Module& model, const Shape& sample, DType dtype = DType::f32,
                       const nn::Forward& run = {});
// Dynamic extents for traces of a part of a model, or of all of it: two choices if possible, since values
// that a trace computes from extents differ between the two. Throws UserError if no number of steps that the
// model takes can be recognised.
std::vector<FreeExtents> free_extents(nn::Module& model, const nn::Part& part);
// Traces inputs of the part's ports.
Trace trace_evaluation(nn::Module& model, const nn::Part& part, const FreeExtents& free);

}  // namespace tandem::exporting
