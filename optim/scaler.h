// ScalerOptions: how the loss is scaled, and the scalers of other frameworks as presets.
//
// The scale multiplies the seed of backward, so that 16-bit gradients do not underflow, and the update
// divides by it. A step whose gradients overflow is skipped and lowers the scale; steps without overflow
// raise it. The state machine is core/kernels/loss_scale.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/loss_scale.h"

namespace tandem::optim {

// What has a scale of its own.
enum class ScalerScope : std::uint8_t {
  global,     // one scale
  loss,       // every loss: gradients are unscaled after each backward, and added up in f32
  optimizer,  // every Step that shares a LossScaler
};

// The defaults are no scaling.
struct ScalerOptions {
  double initial = 1.0;
  double growth = 1.0, backoff = 1.0;  // factors of the scale
  std::int64_t interval = 2000;        // clean steps to a growth
  bool grows_late = false;             // so many come before the clean step that grows
  CleanCount counter = CleanCount::consecutive;
  int hysteresis = 1;  // the n-th overflow lowers the scale
  Refill refill = Refill::clean;
  double floor = 1.0, ceiling = 0x1p24;
  FloorAction floor_action = FloorAction::clamp;
  bool delayed = false;
  double tolerance = 0.0;  // share of overflows since the last change that lowers nothing, [0, 1]
  ScaleEstimator estimator = ScaleEstimator::none;
  double target = 4.0;        // of ScaleEstimator::amax
  bool skips = true;          // a step that overflows is not applied
  bool spare_forward = true;  // a loss that is not finite leaves the scale alone
  ScalerScope scope = ScalerScope::global;
  int losses = 1;  // with ScalerScope::loss

  static ScalerOptions none() { return {}; }
  static ScalerOptions fixed(double scale);  // throws as check
  // 2^16, × 2 after 2000 clean steps to at most 2^24, × ½ after an overflow to at least 1; an overflow at 1
  // leaves the scaler exhausted.
  static ScalerOptions dynamic();

  bool moves() const { return growth != 1.0 || backoff != 1.0 || estimator != ScaleEstimator::none; }
  ScaleRules rules() const;
};

// Throws UserError "[scaler] …" for numbers out of range, a scale that would not stay a power of two
// (products and quotients by one are exact), and options that contradict each other.
void check(const ScalerOptions& options);

struct ScalerPreset {
  std::string_view name;     // "torch"
  std::string_view summary;  // one line: whose, and what is peculiar
  ScalerOptions options;
};

// The scalers of other frameworks, transition by transition. What they do besides (state names, error texts,
// synchronisation) is not imitated.
std::span<const ScalerPreset> scaler_presets();
// Throws UserError naming the nearest preset.
const ScalerOptions& scaler_preset(std::string_view name);

}  // namespace tandem::optim
