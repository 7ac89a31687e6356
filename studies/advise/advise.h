// `tandem advise`: the performance bound of each op of a training step on this machine, and possible
// speedups.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "amp/lint.h"
#include "amp/plan/graph.h"
#include "config/load.h"
#include "studies/advise/roofline.h"

namespace tandem::advise {

// Forward and backward of one op.
struct OpAdvice {
  amp::plan::OpKey key;
  double f32_ns = 0.0, low_ns = 0.0;                    // measured; low: all possible ops in 16 bits
  double f32_estimate_ns = 0.0, low_estimate_ns = 0.0;  // by the roofline
  Bound bound = Bound::memory, low_bound = Bound::memory;
  bool product = false;
  std::optional<ProductSize> size;       // absent for ops without a product
  double tensor_cores = 1.0, amx = 1.0;  // utilisation of the unit by this size
};

// A layer measured with other widths.
struct ShapeChange {
  std::string layer;  // with the number of layers of the same size: "conv1", "layer1.0.conv1 (and 3 like it)"
  Index inputs = 0, outputs = 0, new_inputs = 0, new_outputs = 0;
  double saved_us = 0.0;         // per step, for all these layers
  std::int64_t added_bytes = 0;  // of inputs, results and weights in 16 bits
  std::string how;               // "a fourth channel of zeros in the loader", …
};

struct Advice {
  std::string phase;  // of a step
  std::string dtype;  // 16-bit dtype
  Rates f32, low;
  std::string unit;             // unit for 16-bit products: "AMX", "AVX-512 BF16", "tensor cores"; "" if none
  std::vector<OpAdvice> ops;    // in the order of forward
  std::vector<OpAdvice> worst;  // at most three ops with the worst estimates in 16 bits
  std::vector<ShapeChange> changes;  // in descending order of time saved
  Index batch = 0;
  std::optional<BatchAdvice> batch_advice;
  Index most = 0;        // largest batch that fits in memory; 0: unknown
  double ridge = 0.0;    // FLOP per byte above which 16-bit products are not memory-bound
  double f32_ms = 0.0;   // of a step, measured
  double closure = 0.0;  // sum of ops and rest divided by the time of whole steps, minus 1
  StepShares shares;
  double factor = 1.0;                 // speedup of products by 16 bits on this machine
  double expected = 1.0, bound = 1.0;  // speedup of a step: from the shares; Amdahl's bound
  std::vector<amp::LintLine> lint;
};

// Advice for each phase of a step, measured on a synthetic batch for about `seconds` in total; the lint of
// all phases is in the last one. Throws UserError for a precision other than O1 without lists and layers, as
// planning::make_plan.
std::vector<Advice> advise(const config::Loaded& loaded, double seconds);

// The JSON of a task with one phase has the members at the top level, others have them under "phases".
nlohmann::ordered_json to_json(const std::vector<Advice>& phases);
// For a terminal.
void print(const std::string& name, const std::vector<Advice>& phases);

}  // namespace tandem::advise
