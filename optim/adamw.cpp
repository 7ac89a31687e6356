#include "optim/adamw.h"

#include "optim/adam_rule.h"

namespace tandem::optim {

const OptimizerRegistry::Entry& AdamW::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<AdamW, AdamWOptions>(
      {.name = "adamw", .help = "Adam with decoupled weight decay", .lr = 1e-3}, describe_adam<AdamWOptions>);
  return entry;
}

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters), entry(), options, adam_rule<update_rules::AdamW>(options),
                adam_moments(options)) {}

}  // namespace tandem::optim
