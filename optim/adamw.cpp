#include "optim/adamw.h"

#include "optim/adam_rule.h"

namespace tandem::optim {

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters),
                {.name = "adamw",
                 .lr = options.lr,
                 .default_lr = 1e-3,
                 .weight_decay = options.weight_decay,
                 .groups = &options.groups},
                adam_rule<update_rules::AdamW>("adamw", options), adam_moments(options)) {}

}  // namespace tandem::optim
