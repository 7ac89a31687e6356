#include "optim/sgd.h"

#include "core/kernels/update.h"
#include "optim/registry.h"

namespace tandem::optim {

const OptimizerRegistry::Entry& Sgd::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Sgd, SgdOptions>(
      {.name = "sgd", .help = "stochastic gradient descent, with momentum or Nesterov's", .lr = 1e-3},
      [](options::Describe<SgdOptions>& keys) {
        keys.key("momentum", &SgdOptions::momentum, "share of the last update kept",
                 {.min = 0.0, .max = 1.0, .open_max = true, .keyword = "auto"})
            .key("dampening", &SgdOptions::dampening, "share of the gradient kept out of the momentum",
                 {.min = 0.0, .max = 1.0})
            .key("nesterov", &SgdOptions::nesterov, "look ahead along the momentum")
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
