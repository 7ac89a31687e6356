#include "optim/sgd.h"

#include "core/kernels/update_rules.h"
#include "optim/registry.h"

namespace tandem::optim {

const OptimizerRegistry::Entry& Sgd::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Sgd, SgdOptions>(
      {.name = "sgd",
       .help = "stochastic gradient descent, optionally with momentum or Nesterov momentum",
       .lr = 1e-3},
      [](options::Describe<SgdOptions>& keys) {
        keys.key("momentum", &SgdOptions::momentum, "momentum factor",
                 {.min = 0.0, .max = 1.0, .open_max = true, .keyword = "auto"})
            .key("dampening", &SgdOptions::dampening, "share of the gradient left out of the momentum buffer",
                 {.min = 0.0, .max = 1.0})
            .key("nesterov", &SgdOptions::nesterov, "Nesterov momentum")
            .rule("nesterov", "needs momentum > 0 and dampening 0", [](const SgdOptions& o) {
              return !o.nesterov || (o.momentum > 0.0 && o.dampening == 0.0);
            });
      });
  return entry;
}

Sgd::Sgd(std::vector<Parameter> parameters, const SgdOptions& options)
    : Optimizer(
          std::move(parameters), entry(), options,
          update_rules::Sgd{
              .momentum = options.momentum, .dampening = options.dampening, .nesterov = options.nesterov},
          options.momentum != 0.0 ? std::vector<Moment>{{"momentum"}} : std::vector<Moment>{}) {}

}  // namespace tandem::optim
