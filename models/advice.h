// What keeps a model from gaining by mixed precision: sizes that leave matrix units idle, and time that is
// not spent in products.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/summary.h"

namespace tandem::models {

// A layer whose sizes do not fill the units of a machine.
struct ShapeAdvice {
  std::string layer;
  Index inputs = 0, outputs = 0;
  double tensor_cores = 1.0;  // share of a GPU's tensor cores that does useful work (models/matrix_units.h)
  double amx = 1.0;           // of AMX tiles
  double flop_share = 0.0;    // its own products', of the model's
};

// The layers where either share is below 1, greatest FLOP share first.
std::vector<ShapeAdvice> shape_advice(const ModelSummary& summary);

// "conv1: 3 → 64 channels fill 37.5 % of tensor cores and 9.4 % of AMX tiles (2.3 % of the FLOP): …"
std::string to_string(const ShapeAdvice& advice);

// FLOP of the forward pass for each byte its ops read and write, weights once a batch; with 16-bit
// activations and weights the bytes are half as many.
double arithmetic_intensity(const ModelSummary& summary, Index batch);

// Share of the forward time that goes into products for which `lowered` holds: those that matrix units of 16
// bits speed up.
double product_share(const ModelSummary& summary, const std::function<bool(const OpTime&)>& lowered);
// As above, of the products that their cast rule lowers (level O1).
double product_share(const ModelSummary& summary);

// The greatest speed-up of a model whose share `lowered` of the time becomes `factor` times as fast (Amdahl
// 1967); an infinite factor gives the bound that no machine exceeds.
double amdahl_bound(double lowered, double factor);

}  // namespace tandem::models
