#include "amp/calibration.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::amp {

namespace {

constexpr int kGreatestExponent = 15, kSpareBits = 3;
constexpr double kFlushedShare = 1e-3;

}  // namespace

std::optional<ScaleWindow> window_of(const ExponentHistogram& gradients) {
  const auto highest = gradients.highest();
  if (!highest) return std::nullopt;
  const double allowed =
      kFlushedShare * static_cast<double>(gradients.total() - gradients.zeros() - gradients.non_finite());
  ScaleWindow window{.low = 0, .high = kGreatestExponent - *highest - kSpareBits};
  while (static_cast<double>(gradients.flushed(window.low)) > allowed) ++window.low;
  return window;
}

Calibration calibration_of(std::span<const GradientCollector::Layer> layers, int batches) {
  Calibration found{.layers = {}, .batches = batches, .window = {}, .lowest = {}, .highest = {}};
  for (const GradientCollector::Layer& layer : layers) {
    const auto window = window_of(layer.activations);
    if (!window) continue;
    if (found.layers.empty() || window->low > found.window.low) {
      found.window.low = window->low;
      found.lowest = layer.name;
    }
    if (found.layers.empty() || window->high < found.window.high) {
      found.window.high = window->high;
      found.highest = layer.name;
    }
    found.layers.push_back({layer.name, *window});
  }
  require(!found.layers.empty(), "scaler",
          "calibration saw no gradient that is not zero in {} batches; look at the loss, or set "
          "precision.scaler to dynamic",
          batches);
  require(
      !found.window.empty(), "scaler",
      "no loss scale fits all layers: the gradients of {} want at least 2^{} in FP16, those of {} at most "
      "2^{}; take BF16 (precision=amp_bf16), keep gradients of {} in FP32 "
      "(precision.layers, \"backward\": \"fp32\"), or set precision.scaler to dynamic",
      found.lowest, found.window.low, found.highest, found.window.high, found.lowest);
  return found;
}

int start_of(const Calibration& calibration, const optim::ScalerOptions& scaler) {
  const int floor = static_cast<int>(std::ceil(std::log2(scaler.floor)));
  const int ceiling = static_cast<int>(std::floor(std::log2(scaler.ceiling)));
  return std::clamp(calibration.window.high, floor, std::max(floor, ceiling));
}

std::string to_string(const Calibration& calibration) {
  return fmt::format(
      "loss scale: calibrated on {} batch{} in FP32: window 2^{} ({}) to 2^{} ({}); starts at its upper end, "
      "dynamic from there",
      calibration.batches, calibration.batches == 1 ? "" : "es", calibration.window.low, calibration.lowest,
      calibration.window.high, calibration.highest);
}

}  // namespace tandem::amp
