// Exponents of a model's gradients, and the effect of FP16 on them: predicted from FP32, and measured.
#pragma once

#include <string>
#include <vector>

#include "amp/gradient_histogram.h"
#include "amp/segmented_loss_scale.h"
#include "report/plot/svg.h"
#include "studies/inspect/workbench.h"

namespace tandem::inspect {

struct LayerGradients {
  std::string name;
  amp::ExponentHistogram activations, weights;  // of an FP32 pass
  amp::ExponentHistogram measured;              // activations in an FP16 pass at scale 1
};

struct GradientReport {
  std::vector<LayerGradients> layers;  // in the order of forward
  LayerGradients all;
  std::int64_t batches = 0;
};

// Runs `batches` training batches forward and backward, in FP32 and in FP16 (level O1) without a loss scale,
// with constant weights. With `borders`, gradients have the relative scales of the loss-scale segments.
GradientReport report_gradients(train::Workbench& bench, std::int64_t batches,
                                const amp::SegmentedLossScale* borders = nullptr);

// Shares of values by exponent, for a chart.
plot::HistogramSeries series_of(const std::string& name, const amp::ExponentHistogram& histogram);
// Charts of activation gradients of the whole model, with the limits of FP16 at scales 1, 8 and 2^15; then of
// each layer.
std::vector<plot::HistogramChart> charts_of(const GradientReport& report);

// The histogram between two exponents as one line of blocks, one column per two exponents.
std::string sparkline(const amp::ExponentHistogram& histogram, int low, int high);

}  // namespace tandem::inspect
