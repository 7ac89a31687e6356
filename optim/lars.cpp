#include "optim/lars.h"

#include "core/kernels/update_rules.h"
#include "optim/registry.h"

namespace tandem::optim {

const OptimizerRegistry::Entry& Lars::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Lars, LarsOptions>(
      {.name = "lars", .help = "SGD with a trust ratio per layer, for large batches", .lr = 0.1},
      [](options::Describe<LarsOptions>& keys) {
        keys.key("momentum", &LarsOptions::momentum, "momentum factor",
                 {.min = 0.0, .max = 1.0, .open_max = true, .keyword = "auto"})
            .key("eps", &LarsOptions::eps, "added to the denominator",
                 {.min = 0.0, .max = 1.0, .keyword = "auto"})
            .key("trust_coefficient", &LarsOptions::trust_coefficient, "scale of the trust ratio",
                 {.min = 0.0, .max = 1e6, .open_min = true})
            .key("adapt_vectors", &LarsOptions::adapt_vectors,
                 "apply trust ratios to biases and normalisation parameters too");
      });
  return entry;
}

Lars::Lars(std::vector<Parameter> parameters, const LarsOptions& options)
    : Optimizer(std::move(parameters), entry(), options,
                update_rules::Lars{.momentum = options.momentum,
                                   .trust_coefficient = options.trust_coefficient,
                                   .eps = options.eps},
                {{"momentum"}}) {}

}  // namespace tandem::optim
