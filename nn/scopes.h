// Scopes for networks that take part in the training of others. They restore the previous state at their end,
// also on exceptions; they nest, and cost nothing if unused. Like a module's mode they apply on every thread.
#pragma once

#include <vector>

#include "nn/module.h"

namespace tandem::nn {

// Treats the parameters of a tree as constants: ops recorded in the scope pass gradients to its inputs, but
// compute none for these parameters, no matter when their backward runs. Values, working copies and input
// gradients are bit-identical to a forward without the scope. Parameters shared with other modules are
// constants there too. Earlier recordings keep their edges.
//
//   Tensor loss;
//   {
//     const nn::Frozen frozen(discriminator);
//     loss = bce_with_logits(discriminator(generator(z)), real);
//   }
//   step_of_generator.backward(loss);
//
// Do not construct an optim::Step of the tree or call freeze() within the scope: the parameters are already
// frozen.
class Frozen {
 public:
  explicit Frozen(Module& module);
  ~Frozen();
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  std::vector<Parameter> parameters_;  // frozen by this scope
};

// Modules of the tree in training mode use the statistics of the batch as usual, but update neither running
// statistics nor counters: for passes that must not count. Outputs and gradients are bit-identical to
// training. No effect in evaluation mode.
class KeepStatistics {
 public:
  explicit KeepStatistics(Module& module);
  ~KeepStatistics();
  KeepStatistics(const KeepStatistics&) = delete;
  KeepStatistics& operator=(const KeepStatistics&) = delete;

 private:
  std::vector<Module*> modules_;  // modules that updated before the scope
};

}  // namespace tandem::nn
