#include "optim/adam.h"

#include "optim/adam_rule.h"

namespace tandem::optim {

const OptimizerRegistry::Entry& Adam::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Adam, AdamOptions>(
      {.name = "adam", .help = "adaptive moments; weight decay added to the gradient", .lr = 1e-3},
      describe_adam<AdamOptions>);
  return entry;
}

Adam::Adam(std::vector<Parameter> parameters, const AdamOptions& options)
    : Optimizer(std::move(parameters), entry(), options, adam_rule<update_rules::Adam>(options),
                adam_moments(options)) {}

}  // namespace tandem::optim
