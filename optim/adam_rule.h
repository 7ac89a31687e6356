// What Adam, AdamW and their options have in common.
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

// Throws UserError for betas outside [0, 1) and a negative eps.
template <class Rule, class Options>
Rule adam_rule(const char* name, const Options& options) {
  check_option(name, "beta1", options.beta1, {});
  check_option(name, "beta2", options.beta2, {});
  check_at_least(name, "eps", options.eps);
  Rule rule;
  rule.beta1 = options.beta1;
  rule.beta2 = options.beta2;
  rule.eps = options.eps;
  rule.amsgrad = options.amsgrad;
  return rule;
}

template <class Options>
std::array<Moment, 3> adam_moments(const Options& options) {
  return {Moment{"mean"}, Moment{"square"}, Moment{options.amsgrad ? "max_square" : ""}};
}

}  // namespace tandem::optim
