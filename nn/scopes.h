// Scopes that change how a tree of modules runs, for networks that take part in the training of others. What
// they change is put back at their end, by an exception too; they nest, and cost nothing where they are not
// used. Like the mode of a module they hold for whoever runs it, on any thread.
#pragma once

#include <utility>
#include <vector>

#include "nn/module.h"

namespace tandem::nn {

// Takes the parameters of a tree as constants: what is recorded in the scope passes gradients through to its
// inputs and leaves none on these parameters, whenever its backward runs; their gradients are not computed.
// Values, working copies and input gradients are those of the same forward without the scope, to the bit. A
// parameter that other modules share is a constant there too. What was recorded outside keeps its edges.
//
//   Tensor loss;
//   {
//     const nn::Frozen frozen(discriminator);
//     loss = bce_with_logits(discriminator(generator(z)), real);
//   }
//   step_of_generator.backward(loss);
//
// Make no optim::Step of the tree in the scope, and call no freeze() there: it would find the parameters
// frozen already.
class Frozen {
 public:
  explicit Frozen(Module& module);
  ~Frozen();
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  std::vector<Parameter> parameters_;  // those that the scope has frozen
};

// Modules of the tree in training mode compute with the statistics of the batch, as ever, and write neither
// the shadow of their running statistics nor counters: for a pass that must not count. Outputs and gradients
// are those of training, to the bit. Without an effect in evaluation mode.
class KeepStatistics {
 public:
  explicit KeepStatistics(Module& module);
  ~KeepStatistics();
  KeepStatistics(const KeepStatistics&) = delete;
  KeepStatistics& operator=(const KeepStatistics&) = delete;

 private:
  std::vector<Module*> modules_;  // those that wrote before the scope
};

}  // namespace tandem::nn
