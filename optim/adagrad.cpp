#include "optim/adagrad.h"

#include "core/error.h"

namespace tandem::optim {

namespace {
update_rules::Adagrad rule_of(const AdagradOptions& options) {
  check_at_least("adagrad", "lr_decay", options.lr_decay);
  check_at_least("adagrad", "initial_accumulator", options.initial_accumulator);
  check_at_least("adagrad", "eps", options.eps);
  return {.lr_decay = options.lr_decay, .eps = options.eps};
}
}  // namespace

Adagrad::Adagrad(std::vector<Parameter> parameters, const AdagradOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "adagrad",
                 .lr = options.lr,
                 .default_lr = 1e-2,
                 .weight_decay = options.weight_decay,
                 .groups = &options.groups},
                rule_of(options), {Moment{"sum", options.initial_accumulator}}) {}

}  // namespace tandem::optim
