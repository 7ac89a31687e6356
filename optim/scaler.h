// ScalerOptions: loss scaling, with the scalers of other frameworks as presets.
//
// The scale multiplies the seed of backward so that 16-bit gradients do not underflow; the update divides by
// it. A step with overflowing gradients is skipped and lowers the scale; steps without overflow raise it. The
// state machine is core/kernels/loss_scale.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/loss_scale.h"

namespace tandem::optim {

// The owner of a scale.
enum class ScalerScope : std::uint8_t {
  global,     // one scale for all
  loss,       // each loss: gradients are unscaled after each backward and summed in f32
  optimizer,  // each Step that shares a LossScaler
};

// The defaults disable scaling.
struct ScalerOptions {
  double initial = 1.0;
  double growth = 1.0, backoff = 1.0;  // factors of the scale
  std::int64_t interval = 2000;        // clean steps before a growth
  bool grows_late = false;             // grow at the clean step after the interval, not at its last
  CleanCount counter = CleanCount::consecutive;
  int hysteresis = 1;  // the n-th overflow lowers the scale
  Refill refill = Refill::clean;
  double floor = 1.0, ceiling = 0x1p24;
  FloorAction floor_action = FloorAction::clamp;
  bool delayed = false;
  double tolerance = 0.0;  // share of overflows since the last change that is tolerated, [0, 1]
  ScaleEstimator estimator = ScaleEstimator::none;
  double target = 4.0;        // of ScaleEstimator::amax
  bool skips = true;          // skip a step that overflows
  bool spare_forward = true;  // a non-finite loss leaves the scale unchanged
  ScalerScope scope = ScalerScope::global;
  int losses = 1;  // with ScalerScope::loss

  static ScalerOptions none() { return {}; }
  static ScalerOptions fixed(double scale);  // throws as check
  // From 2^16; × 2 after 2000 clean steps up to 2^24; × ½ after an overflow down to 1. An overflow at 1
  // leaves the scaler exhausted.
  static ScalerOptions dynamic();

  bool moves() const { return growth != 1.0 || backoff != 1.0 || estimator != ScaleEstimator::none; }
  ScaleRules rules() const;
};

// Throws UserError "[scaler] …" for numbers out of range, a scale that would not stay a power of two (whose
// products and quotients are exact), and contradicting options.
void check(const ScalerOptions& options);

struct ScalerPreset {
  std::string_view name;     // "torch"
  std::string_view summary;  // one line: origin and peculiarities
  ScalerOptions options;
};

// The scalers of other frameworks, with the same transitions of the scale. Their state names, error texts and
// synchronisation are not imitated.
std::span<const ScalerPreset> scaler_presets();
// Throws UserError naming the nearest preset.
const ScalerOptions& scaler_preset(std::string_view name);

}  // namespace tandem::optim
