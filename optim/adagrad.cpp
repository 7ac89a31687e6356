#include "optim/adagrad.h"

#include "core/kernels/update_rules.h"
#include "optim/registry.h"

namespace tandem::optim {

const OptimizerRegistry::Entry& Adagrad::entry() {
  static const OptimizerRegistry::Entry entry = optimizer_entry<Adagrad, AdagradOptions>(
      {.name = "adagrad", .help = "gradient divided by the root of the sum of all its squares", .lr = 1e-2},
      [](options::Describe<AdagradOptions>& keys) {
        keys.key("eps", &AdagradOptions::eps, "added to the denominator",
                 {.min = 0.0, .max = 1.0, .keyword = "auto"})
            .key("lr_decay", &AdagradOptions::lr_decay, "lr / (1 + steps·lr_decay)", {.min = 0.0, .max = 1e6})
            .key("initial_accumulator", &AdagradOptions::initial_accumulator,
                 "first value of the sum of squares", {.min = 0.0, .max = 1e6});
      });
  return entry;
}

Adagrad::Adagrad(std::vector<Parameter> parameters, const AdagradOptions& options)
    : Optimizer(std::move(parameters), entry(), options,
                update_rules::Adagrad{.lr_decay = options.lr_decay, .eps = options.eps},
                {{"sum", options.initial_accumulator}}) {}

}  // namespace tandem::optim
