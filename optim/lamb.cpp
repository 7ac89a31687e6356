#include "optim/lamb.h"

#include "core/error.h"

namespace tandem::optim {

namespace {
update_rules::Lamb rule_of(const LambOptions& options) {
  check_option("lamb", "beta1", options.beta1, {});
  check_option("lamb", "beta2", options.beta2, {});
  check_at_least("lamb", "eps", options.eps);
  return {{.beta1 = options.beta1, .beta2 = options.beta2, .eps = options.eps}};
}
}  // namespace

Lamb::Lamb(std::vector<Parameter> parameters, const LambOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "lamb",
                 .lr = options.lr,
                 .default_lr = 1e-3,
                 .weight_decay = options.weight_decay,
                 .adapt_vectors = options.adapt_vectors,
                 .groups = &options.groups},
                rule_of(options), {Moment{"mean"}, Moment{"square"}}) {}

}  // namespace tandem::optim
