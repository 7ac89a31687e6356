#include "amp/precision.h"

#include <algorithm>

namespace tandem::amp {

Precision Precision::o2(DType dtype) {
  Precision precision{.level = Level::O2, .dtype = dtype};
  if (dtype == DType::f16) precision.scaler = optim::ScalerOptions::dynamic();
  return precision;
}

Precision Precision::o3(DType dtype) {
  return {.level = Level::O3, .dtype = dtype, .masters = false, .lower_batch_norm = true};
}

bool Precision::runs_in(DType type) const {
  return lowers() && (dtype == type || std::ranges::any_of(layers, [&](const LayerRule& rule) {
                        return rule.dtype == type || rule.multiplies_in() == type;
                      }));
}

optim::StepOptions step_options(const Precision& precision, std::uint64_t seed) {
  optim::StepOptions options;
  options.scaler = precision.scaler;
  if (!precision.lowers()) return options;
  options.working = precision.dtype;
  options.rounding.moments = precision.state_dtype;
  if (!precision.masters) options.rounding.weights = precision.dtype;
  options.rounding.stochastic = precision.stochastic_rounding;
  options.rounding.seed = seed;
  if (precision.lower_batch_norm) options.round_statistics = precision.dtype;
  return options;
}

}  // namespace tandem::amp
