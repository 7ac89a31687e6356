// The graph of one forward pass as the planner sees it (amp/plan/graph.h), taken by watching it.
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

// Runs `forward`, which gives the loss, in f32 with a tape, and notes every op that precision is asked about:
// its key, rule, roles, and what it reads, tensors being told apart by (storage, offset, shape). On any
// device, `shapes` too. All outputs are held until it is over. Ops that run without a policy or a tape are no
// part of the graph: what they give is an input of the step, and what they read has other reads. The loss is
// fetched. Running statistics are written as ever.
//
// Throws InternalError for an op that asks precision about others on the way.
TracedModel trace(nn::Module& model, const std::function<Tensor()>& forward);

}  // namespace tandem::amp
