// Keys shared by Adam, AdamW and LAMB.
#pragma once

#include "core/kernels/update_rules.h"
#include "optim/registry.h"

namespace tandem::optim {

template <class Options>
void describe_betas(options::Describe<Options>& keys) {
  keys.key("beta1", &Options::beta1, "decay of the mean of gradients",
           {.min = 0.0, .max = 1.0, .open_max = true})
      .key("beta2", &Options::beta2, "decay of the mean of squares",
           {.min = 0.0, .max = 1.0, .open_max = true});
}

template <class Options>
void describe_eps(options::Describe<Options>& keys) {
  keys.key("eps", &Options::eps, "added to the denominator", {.min = 0.0, .max = 1.0, .keyword = "auto"});
}

// Keys of Adam and AdamW.
template <class Options>
void describe_adam(options::Describe<Options>& keys) {
  describe_betas(keys);
  keys.key("amsgrad", &Options::amsgrad, "divide by the largest mean of squares so far");
  describe_eps(keys);
}

template <class Rule, class Options>
Rule adam_rule(const Options& options) {
  Rule rule;
  rule.beta1 = options.beta1;
  rule.beta2 = options.beta2;
  rule.eps = options.eps;
  if constexpr (requires { rule.amsgrad; }) rule.amsgrad = options.amsgrad;
  return rule;
}

template <class Options>
std::vector<Moment> adam_moments(const Options& options) {
  if (options.amsgrad) return {{"mean"}, {"square"}, {"max_square"}};
  return {{"mean"}, {"square"}};
}

}  // namespace tandem::optim
