// Calibration of FP16 loss scales from gradients observed in f32.
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

// Window of fitting scales. The low end is at least `lowest`. Absent without a finite non-zero value.
std::optional<ScaleWindow> window_of(const ExponentHistogram& gradients, int lowest = 0);

struct LayerWindow {
  std::string name;
  ScaleWindow window;
};

// A segment of backward, with the layers that determine its window.
struct ScaleSegment {
  std::string border;  // module at whose output it begins (see SegmentedLossScale); "loss" for the first
  int log2_scale = 0;  // initial scale
  ScaleWindow window;
  std::string lowest, highest;
  std::vector<std::string> parameters;
};

struct Calibration {
  std::vector<LayerWindow> layers;  // windows of activation gradients, in the order of forward
  int batches = 0;
  ScaleWindow window;           // intersection of all windows
  std::string lowest, highest;  // the layers that determine its ends
  // With precision.scaler.mode segments: from the loss to the input; one if a single scale fits.
  std::vector<ScaleSegment> segments;
};

// Throws UserError, naming the layers, when no scale fits all of them, or without a non-zero gradient.
Calibration calibration_of(std::span<const GradientCollector::Layer> layers, int batches);

// The same with the fewest possible segments when no scale fits all layers. A segment's window also fits the
// tensors at its borders. It may lie below scale 1, except the first one's, which is the scaler's own. Throws
// UserError when no segments fit.
Calibration segmented(std::span<const GradientCollector::Layer> layers, const BackwardLinks& links,
                      int batches, const optim::ScalerOptions& scaler);

// log2 of the scale closest to 2^log2 within the scaler's floor and ceiling.
int within(const optim::ScalerOptions& scaler, int log2);
// log2 of the initial scale: the window's highest within the scaler's floor and ceiling.
int start_of(const Calibration& calibration, const optim::ScalerOptions& scaler);

// "loss scale: calibrated on 4 batches in FP32: window 2^9 (layer3.0.conv1) to 2^13 (fc); starts at …"
std::string to_string(const Calibration& calibration);

}  // namespace tandem::amp
