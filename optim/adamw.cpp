#include "optim/adamw.h"

#include "core/error.h"

namespace tandem::optim {

namespace {
UpdateRule rule_of(const AdamWOptions& options) {
  check_option("adamw", "beta1", options.beta1, {});
  check_option("adamw", "beta2", options.beta2, {});
  check_at_least("adamw", "eps", options.eps);
  return {.kind = UpdateKind::adamw,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .amsgrad = options.amsgrad};
}
}  // namespace

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "adamw",
                 .lr = options.lr,
                 .default_lr = 1e-3,
                 .weight_decay = options.weight_decay,
                 .groups = &options.groups},
                rule_of(options),
                {Moment{"mean"}, Moment{"square"}, Moment{options.amsgrad ? "max_square" : ""}}) {}

}  // namespace tandem::optim
