// The exponents of a model's gradients, and what FP16 does to them: predicted from FP32, and measured.
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
  amp::ExponentHistogram measured;              // of the activations in an FP16 pass at scale 1
};

struct GradientReport {
  std::vector<LayerGradients> layers;  // in the order of forward
  LayerGradients all;
  std::int64_t batches = 0;
};

// Runs `batches` training batches forward and backward, in FP32 and in FP16 (level O1) without a loss scale.
// Nothing is updated: every batch sees the same weights. With `borders` gradients carry what the segments of
// the loss scale have beside it.
GradientReport report_gradients(train::Workbench& bench, std::int64_t batches,
                                const amp::SegmentedLossScale* borders = nullptr);

// The exponent of every value as shares, for a chart.
plot::HistogramSeries series_of(const std::string& name, const amp::ExponentHistogram& histogram);
// Activation gradients of the whole model, with what FP16 flushes at scales 1, 8 and 2^15; then layer by
// layer.
std::vector<plot::HistogramChart> charts_of(const GradientReport& report);

// The histogram between two exponents as one line of blocks, a column for two exponents.
std::string sparkline(const amp::ExponentHistogram& histogram, int low, int high);

}  // namespace tandem::inspect
