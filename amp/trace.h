// Trace of one forward pass as the planner's graph (amp/plan/graph.h).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "amp/plan/graph.h"
#include "core/tensor.h"
#include "nn/module.h"

namespace tandem::amp {

struct TracedModel {
  plan::Graph graph;                 // without prices
  std::vector<std::string> modules;  // "path|describe()|parameter shapes" of each, for plan::model_digest

  std::string model_digest() const;
  std::string shapes_digest() const;
};

// Runs `forward`, which returns the loss, in f32 with a tape, and records every op that precision policies
// are asked about: key, rule, roles and reads. Tensors are identified by (storage, offset, shape). Works on
// any device, also `shapes`. All outputs are held until the end. Ops without a policy or a tape are not part
// of the graph: their results are inputs of the step, and their reads are other reads. The loss is fetched.
// Running statistics are written as usual.
//
// Throws InternalError for an op that asks precision about nested ops.
TracedModel trace(nn::Module& model, const std::function<Tensor()>& forward);

}  // namespace tandem::amp
