#include "optim/lars.h"

#include "core/error.h"

namespace tandem::optim {

namespace {
update_rules::Lars rule_of(const LarsOptions& options) {
  check_option("lars", "momentum", options.momentum, {});
  check_at_least("lars", "trust_coefficient", options.trust_coefficient);
  check_at_least("lars", "eps", options.eps);
  return {.momentum = options.momentum, .trust_coefficient = options.trust_coefficient, .eps = options.eps};
}
}  // namespace

Lars::Lars(std::vector<Parameter> parameters, const LarsOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "lars",
                 .lr = options.lr,
                 .default_lr = 0.1,
                 .weight_decay = options.weight_decay,
                 .adapt_vectors = options.adapt_vectors,
                 .groups = &options.groups},
                rule_of(options), {Moment{"momentum"}}) {}

}  // namespace tandem::optim
