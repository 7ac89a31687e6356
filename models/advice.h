// Reasons that limit the gain of mixed precision: sizes that leave matrix units idle, and time outside of
// products.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/summary.h"

namespace tandem::models {

// A layer whose sizes do not fill a machine's matrix units.
struct ShapeAdvice {
  std::string layer;
  Index inputs = 0, outputs = 0;
  double tensor_cores = 1.0;  // useful share of a GPU's tensor cores (models/matrix_units.h)
  double amx = 1.0;           // of AMX tiles
  double flop_share = 0.0;    // of its own products, in the model's FLOP
};

// Layers where either share is below 1, sorted by descending FLOP share.
std::vector<ShapeAdvice> shape_advice(const ModelSummary& summary);

// "conv1: 3 → 64 channels fill 37.5 % of tensor cores and 9.4 % of AMX tiles (2.3 % of the FLOP): …"
std::string to_string(const ShapeAdvice& advice);

// FLOP of the forward pass per byte that its ops read and write, weights once per batch; with 16-bit
// activations and weights the bytes are half.
double arithmetic_intensity(const ModelSummary& summary, Index batch);

// Share of the forward time in products for which `lowered` holds: those that 16-bit matrix units speed up.
double product_share(const ModelSummary& summary, const std::function<bool(const OpTime&)>& lowered);
// The same for products that their cast rule lowers (level O1).
double product_share(const ModelSummary& summary);

// Upper bound on the speed-up when the share `lowered` of the time becomes `factor` times as fast (Amdahl
// 1967); an infinite factor bounds every machine.
double amdahl_bound(double lowered, double factor);

}  // namespace tandem::models
