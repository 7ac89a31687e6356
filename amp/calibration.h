// The loss scales that a model's gradients fit in FP16, from gradients that were seen in f32.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "amp/chain_collector.h"
#include "amp/gradient_histogram.h"
#include "amp/scale_segments.h"
#include "optim/scaler.h"

namespace tandem::amp {

// The low end is at least `lowest`. Absent where no finite value but zero was seen.
std::optional<ScaleWindow> window_of(const ExponentHistogram& gradients, int lowest = 0);

struct LayerWindow {
  std::string name;
  ScaleWindow window;
};

// A segment of backward, and the layers that set the ends of its window.
struct ScaleSegment {
  std::string
      border;  // the module behind whose output it begins, see SegmentedLossScale; of the first "loss"
  int log2_scale = 0;  // to start with
  ScaleWindow window;
  std::string lowest, highest;
  std::vector<std::string> parameters;
};

struct Calibration {
  std::vector<LayerWindow> layers;  // in the order of forward; of activation gradients
  int batches = 0;
  ScaleWindow window;           // what all of them have in common
  std::string lowest, highest;  // the layers that set its ends
  // With precision.scaler.mode segments: from the loss to the input. One where a scale fits all of them.
  std::vector<ScaleSegment> segments;
};

// Throws UserError, naming the layers, where no scale fits all of them, and where no gradient was seen.
Calibration calibration_of(std::span<const GradientCollector::Layer> layers, int batches);

// The same with segments, the fewest there can be, where no scale fits all layers. Beside the layers' each
// segment's window holds those of the tensors at its borders; it may lie below scale 1 but for the first
// one's, which is the scaler's own. Throws UserError where even so nothing fits.
Calibration segmented(std::span<const GradientCollector::Layer> layers, const BackwardLinks& links,
                      int batches, const optim::ScalerOptions& scaler);

// log2 of the scale next to 2^log2 that lies within floor and ceiling of the scaler.
int within(const optim::ScalerOptions& scaler, int log2);
// log2 of the scale to start with: the highest of the window, within floor and ceiling of the scaler.
int start_of(const Calibration& calibration, const optim::ScalerOptions& scaler);

// "loss scale: from 4 batches in FP32, 2^13 to start with; window 2^9 (layer3.0.conv1) to 2^13 (fc), …"
std::string to_string(const Calibration& calibration);

}  // namespace tandem::amp
