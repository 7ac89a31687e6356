#include "optim/adam.h"

#include "optim/adam_rule.h"

namespace tandem::optim {

Adam::Adam(std::vector<Parameter> parameters, const AdamOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "adam",
                 .lr = options.lr,
                 .default_lr = 1e-3,
                 .weight_decay = options.weight_decay,
                 .groups = &options.groups},
                adam_rule<update_rules::Adam>("adam", options), adam_moments(options)) {}

}  // namespace tandem::optim
