#include "optim/sgd.h"

#include "core/error.h"

namespace tandem::optim {

namespace {
update_rules::Sgd rule_of(const SgdOptions& options) {
  check_option("sgd", "momentum", options.momentum, {});
  check_option("sgd", "dampening", options.dampening, {.closed = true});
  require(!options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0), "sgd",
          "nesterov needs momentum and no dampening; momentum is {}, dampening {}", options.momentum,
          options.dampening);
  return {.momentum = options.momentum, .dampening = options.dampening, .nesterov = options.nesterov};
}
}  // namespace

Sgd::Sgd(std::vector<Parameter> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "sgd",
                 .lr = options.lr,
                 .default_lr = 1e-3,
                 .weight_decay = options.weight_decay,
                 .groups = &options.groups},
                rule_of(options), {Moment{options.momentum != 0.0 ? "momentum" : ""}}) {}

}  // namespace tandem::optim
