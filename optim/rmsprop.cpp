#include "optim/rmsprop.h"

#include "core/error.h"

namespace tandem::optim {

namespace {
update_rules::Rmsprop rule_of(const RmspropOptions& options) {
  check_option("rmsprop", "alpha", options.alpha, {.closed = true});
  check_option("rmsprop", "momentum", options.momentum, {});
  check_at_least("rmsprop", "eps", options.eps);
  return {
      .alpha = options.alpha, .eps = options.eps, .momentum = options.momentum, .centered = options.centered};
}
}  // namespace

Rmsprop::Rmsprop(std::vector<Parameter> parameters, const RmspropOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "rmsprop",
                 .lr = options.lr,
                 .default_lr = 1e-2,
                 .weight_decay = options.weight_decay,
                 .groups = &options.groups},
                rule_of(options),
                {Moment{"square"}, Moment{options.centered ? "mean" : ""},
                 Moment{options.momentum != 0.0 ? "momentum" : ""}}) {}

}  // namespace tandem::optim
