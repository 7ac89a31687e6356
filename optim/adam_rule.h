// What Adam, AdamW and their options have in common.
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

// Throws UserError for betas outside [0, 1) and a negative eps.
template <class Options>
UpdateRule adam_rule(const char* name, UpdateKind kind, const Options& options) {
  check_option(name, "beta1", options.beta1, {});
  check_option(name, "beta2", options.beta2, {});
  check_at_least(name, "eps", options.eps);
  return {.kind = kind,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .amsgrad = options.amsgrad};
}

template <class Options>
std::array<Moment, 3> adam_moments(const Options& options) {
  return {Moment{"mean"}, Moment{"square"}, Moment{options.amsgrad ? "max_square" : ""}};
}

}  // namespace tandem::optim
