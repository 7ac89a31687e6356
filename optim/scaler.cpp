#include "optim/scaler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/suggest.h"

namespace tandem::optim {

namespace {

constexpr double kNoFloor = std::numeric_limits<float>::min();
constexpr double kNoCeiling = std::numeric_limits<float>::max();

// Growth × 2 and backoff × ½ within the range of f32; a non-finite forward pass lowers the scale like any
// overflow.
constexpr ScalerOptions doubling(double initial, std::int64_t interval) {
  return {.initial = initial,
          .growth = 2.0,
          .backoff = 0.5,
          .interval = interval,
          .floor = kNoFloor,
          .ceiling = kNoCeiling,
          .spare_forward = false};
}

// Sets members, each given with its value.
template <class Member, class Value, class... More>
constexpr ScalerOptions with(ScalerOptions options, Member member, Value value, More... more) {
  options.*member = value;
  if constexpr (sizeof...(more) > 0) return with(options, more...);
  return options;
}

using O = ScalerOptions;

constexpr std::array kPresets{
    ScalerPreset{"tandem", "the default for fp16: an overflow at scale 1 stops the run",
                 with(doubling(0x1p16, 2000), &O::floor, 1.0, &O::ceiling, 0x1p24, &O::floor_action,
                      FloorAction::raise, &O::spare_forward, true)},
    ScalerPreset{"torch", "PyTorch's GradScaler: no bounds, a growth to infinity is rejected",
                 doubling(0x1p16, 2000)},
    ScalerPreset{"fsdp", "PyTorch's sharded scaler: as torch, overflows are summed over ranks",
                 doubling(0x1p16, 2000)},
    ScalerPreset{"apex", "Apex LossScaler: ceiling 2^24", with(doubling(0x1p16, 2000), &O::ceiling, 0x1p24)},
    ScalerPreset{"apex_legacy", "Apex FP16_Optimizer: from 2^32, floor 1, grows at every 1000th clean step",
                 with(doubling(0x1p32, 1000), &O::counter, CleanCount::modulo, &O::floor, 1.0)},
    ScalerPreset{"apex_hysteresis", "Apex's kernel with hysteresis 2, refilled by any clean step",
                 with(doubling(0x1p16, 2000), &O::hysteresis, 2)},
    ScalerPreset{"deepspeed", "DeepSpeed ZeRO: hysteresis 2, refilled by a growth; raises at 1",
                 with(doubling(0x1p16, 1000), &O::counter, CleanCount::modulo, &O::hysteresis, 2, &O::refill,
                      Refill::growth, &O::floor, 1.0, &O::floor_action, FloorAction::raise)},
    ScalerPreset{"deepspeed_fused", "DeepSpeed's fused FP16: no hysteresis, grows at the 1001st clean step",
                 with(doubling(0x1p16, 1000), &O::counter, CleanCount::modulo_plus_one, &O::floor, 1.0)},
    ScalerPreset{"megatron", "Megatron-LM: from 2^32, floor 1, hysteresis 2, refilled by a growth",
                 with(doubling(0x1p32, 1000), &O::hysteresis, 2, &O::refill, Refill::growth, &O::floor, 1.0)},
    ScalerPreset{"keras", "Keras 3 LossScaleOptimizer: from 2^15, no bounds", doubling(0x1p15, 2000)},
    ScalerPreset{"tensorflow", "TensorFlow DynamicLossScale: from 2^15, floor 1",
                 with(doubling(0x1p15, 2000), &O::floor, 1.0)},
    ScalerPreset{"paddle", "Paddle GradScaler: hysteresis (1 unless set) refilled by a backoff too",
                 with(doubling(0x1p16, 2000), &O::refill, Refill::clean_and_backoff)},
    ScalerPreset{"paddle_amp", "Paddle AmpScaler: as paddle, from 2^15, every 1000 clean steps",
                 with(doubling(0x1p15, 1000), &O::refill, Refill::clean_and_backoff)},
    ScalerPreset{"mxnet", "MXNet: ceiling 2^24, a new scale takes effect one step late",
                 with(doubling(0x1p16, 2000), &O::ceiling, 0x1p24, &O::delayed, true)},
    ScalerPreset{"nvcaffe", "NVCaffe: 4 / the largest gradient of the last step; no step is skipped",
                 with(doubling(1.0, 2000), &O::growth, 1.0, &O::backoff, 1.0, &O::estimator,
                      ScaleEstimator::amax, &O::skips, false)},
    ScalerPreset{"marian",
                 "Marian --fp16: 8, infinities clipped, NaN to 0 at the floor; static unless growth and "
                 "backoff are set",
                 with(doubling(8.0, 10000), &O::growth, 1.0, &O::backoff, 1.0, &O::floor, 8.0,
                      &O::floor_action, FloorAction::sanitize)},
    ScalerPreset{"logmax", "OpenSeq2Seq LogMax: from mean and deviation of log2 of the largest gradient",
                 with(doubling(1.0, 2000), &O::growth, 1.0, &O::backoff, 1.0, &O::estimator,
                      ScaleEstimator::logmax, &O::floor, 1.0, &O::ceiling, 0x1p24)},
    ScalerPreset{
        "openseq2seq", "OpenSeq2Seq Backoff: from 2^24, within [1, 2^24]",
        with(doubling(0x1p24, 2000), &O::counter, CleanCount::modulo, &O::floor, 1.0, &O::ceiling, 0x1p24)},
    ScalerPreset{"fairseq", "fairseq: backs off by the rate of overflows (tolerance), raises at 1e-4",
                 with(doubling(0x1p15, 2000), &O::counter, CleanCount::modulo, &O::floor, 1e-4,
                      &O::floor_action, FloorAction::raise)},
    ScalerPreset{"flax", "Flax DynamicScale: grows at the clean step after 2000 in a row",
                 with(doubling(0x1p16, 2000), &O::grows_late, true)},
};

bool power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

void require_power_of_two(const char* key, double value) {
  require(std::isfinite(value) && value > 0.0 && power_of_two(value), "scaler",
          "{} is {}, not a power of two; scaling by a power of two is exact and changes only "
          "gradients that underflow or overflow; the nearest is {}",
          key, value, value > 0.0 && std::isfinite(value) ? std::exp2(std::round(std::log2(value))) : 1.0);
}

}  // namespace

ScalerOptions ScalerOptions::fixed(double scale) {
  require_power_of_two("a static scale", scale);
  ScalerOptions options;
  options.initial = scale;
  options.floor = std::min(scale, options.floor);
  options.ceiling = std::max(scale, options.ceiling);
  return options;
}

ScalerOptions ScalerOptions::dynamic() { return scaler_preset("tandem"); }

ScaleRules ScalerOptions::rules() const {
  return {.growth = static_cast<float>(growth),
          .backoff = static_cast<float>(backoff),
          .interval = interval + (grows_late ? 1 : 0),
          .counter = counter,
          .hysteresis = hysteresis,
          .refill = refill,
          .floor = static_cast<float>(floor),
          .ceiling = static_cast<float>(ceiling),
          .floor_action = floor_action,
          .delayed = delayed,
          .tolerance = tolerance,
          .estimator = estimator,
          .target = static_cast<float>(target),
          .spare_forward = spare_forward};
}

void check(const ScalerOptions& o) {
  const auto positive = [](const char* key, double value) {
    require(std::isfinite(value) && value > 0.0, "scaler", "{} must be positive, is {}", key, value);
  };
  positive("floor", o.floor);
  positive("ceiling", o.ceiling);
  positive("target", o.target);
  require_power_of_two("initial", o.initial);
  require_power_of_two("growth", o.growth);
  require_power_of_two("backoff", o.backoff);
  // Bounds that the scale can settle at; with an estimator scales need not be powers of two.
  if (o.estimator == ScaleEstimator::none) {
    if (o.ceiling != kNoCeiling) require_power_of_two("ceiling", o.ceiling);
    if (o.floor_action != FloorAction::raise) require_power_of_two("floor", o.floor);
  }
  require(o.growth >= 1.0 && o.backoff <= 1.0, "scaler",
          "growth is {} and backoff {}; expected growth of at least 1 and backoff of at most 1", o.growth,
          o.backoff);
  require(o.floor <= o.initial && o.initial <= o.ceiling, "scaler",
          "initial {} lies outside [floor {}, ceiling {}]", o.initial, o.floor, o.ceiling);
  require(o.interval >= 1, "scaler", "interval is {} clean steps; expected at least 1", o.interval);
  require(o.hysteresis >= 1, "scaler",
          "hysteresis is {}; expected at least 1: the n-th overflow lowers the scale", o.hysteresis);
  require(o.tolerance >= 0.0 && o.tolerance <= 1.0, "scaler", "tolerance is {}, expected a share in [0, 1]",
          o.tolerance);
  require(o.estimator == ScaleEstimator::none || (o.growth == 1.0 && o.backoff == 1.0), "scaler",
          "an estimator sets the scale in every step: growth ({}) and backoff ({}) must be 1", o.growth,
          o.backoff);
  require(o.growth == 1.0 || o.backoff < 1.0, "scaler",
          "growth {} without a backoff: a scale that only grows overflows in the end; set backoff below 1",
          o.growth);
  require(o.losses >= 1 && (o.losses == 1 || o.scope == ScalerScope::loss), "scaler",
          "losses is {}; expected at least 1, and more than 1 only with the scope loss", o.losses);
}

std::span<const ScalerPreset> scaler_presets() { return kPresets; }

const ScalerOptions& scaler_preset(std::string_view name) {
  const auto found =
      std::ranges::find_if(kPresets, [&](const ScalerPreset& preset) { return preset.name == name; });
  if (found != kPresets.end()) return found->options;
  std::vector<std::string> known;
  for (const ScalerPreset& preset : kPresets) known.emplace_back(preset.name);
  throw UserError("scaler",
                  fmt::format("there is no preset \"{}\"{}", name, did_you_mean(std::string(name), known)));
}

}  // namespace tandem::optim
