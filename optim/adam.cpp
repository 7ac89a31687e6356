#include "optim/adam.h"

#include "core/error.h"

namespace tandem::optim {

namespace {
UpdateRule rule_of(const AdamOptions& options) {
  check_option("adam", "beta1", options.beta1, {});
  check_option("adam", "beta2", options.beta2, {});
  check_at_least("adam", "eps", options.eps);
  return {.kind = UpdateKind::adam,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .amsgrad = options.amsgrad};
}
}  // namespace

Adam::Adam(std::vector<Parameter> parameters, const AdamOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "adam",
                 .lr = options.lr,
                 .default_lr = 1e-3,
                 .weight_decay = options.weight_decay,
                 .groups = &options.groups},
                rule_of(options),
                {Moment{"mean"}, Moment{"square"}, Moment{options.amsgrad ? "max_square" : ""}}) {}

}  // namespace tandem::optim
