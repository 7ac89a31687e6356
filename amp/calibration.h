// The loss scales that a model's gradients fit in FP16, from gradients that were seen in f32.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "amp/gradient_histogram.h"
#include "optim/scaler.h"

namespace tandem::amp {

// log2 of loss scales. Empty where `low` is above `high`.
struct ScaleWindow {
  int low = 0;   // least k >= 0 at which FP16 makes at most 0.1 % of the values that are not zero zero
  int high = 0;  // greatest k that leaves three bits above the greatest value: 15 - its exponent - 3

  bool empty() const { return low > high; }
  friend bool operator==(const ScaleWindow&, const ScaleWindow&) = default;
};

// Absent where no finite value but zero was seen.
std::optional<ScaleWindow> window_of(const ExponentHistogram& gradients);

struct LayerWindow {
  std::string name;
  ScaleWindow window;
};

struct Calibration {
  std::vector<LayerWindow> layers;  // in the order of forward; of activation gradients
  int batches = 0;
  ScaleWindow window;           // what all of them have in common
  std::string lowest, highest;  // the layers that set its ends
};

// Throws UserError, naming the layers, where no scale fits all of them, and where no gradient was seen.
Calibration calibration_of(std::span<const GradientCollector::Layer> layers, int batches);

// log2 of the scale to start with: the highest of the window, within floor and ceiling of the scaler.
int start_of(const Calibration& calibration, const optim::ScalerOptions& scaler);

// "loss scale: from 4 batches in FP32, 2^13 to start with; window 2^9 (layer3.0.conv1) to 2^13 (fc), …"
std::string to_string(const Calibration& calibration);

}  // namespace tandem::amp
