#include "nn/scopes.h"

namespace tandem::nn {

namespace {

// Visits without the names of visit(), which would be too slow in every training step.
template <class Visit>
void for_each_module(Module& module, const Visit& visit) {
  visit(module);
  for (const auto& [name, child] : module.children()) for_each_module(*child, visit);
}

}  // namespace

Frozen::Frozen(Module& module) {
  for_each_module(module, [&](Module& below) {
    for (const auto& [name, parameter] : below.own_parameters()) {
      if (parameter.trainable()) parameters_.push_back(parameter);
    }
  });
  for (Parameter& parameter : parameters_) parameter.set_trainable(false);
}

Frozen::~Frozen() {
  for (Parameter& parameter : parameters_) parameter.set_trainable(true);
}

KeepStatistics::KeepStatistics(Module& module) {
  for_each_module(module, [&](Module& below) {
    if (!below.keeps_statistics_) modules_.push_back(&below);
  });
  for (Module* below : modules_) below->keeps_statistics_ = true;
}

KeepStatistics::~KeepStatistics() {
  for (Module* below : modules_) below->keeps_statistics_ = false;
}

}  // namespace tandem::nn
