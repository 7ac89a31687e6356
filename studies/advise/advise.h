// `tandem advise`: what bounds each op of a configuration's step on this machine, and what would make it
// faster.
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
  double f32_ns = 0.0, low_ns = 0.0;                    // measured, with everything 16-bit that may be
  double f32_estimate_ns = 0.0, low_estimate_ns = 0.0;  // by the roofline
  Bound bound = Bound::memory, low_bound = Bound::memory;
  bool product = false;
  std::optional<ProductSize> size;       // of products with one
  double tensor_cores = 1.0, amx = 1.0;  // share of the unit that does useful work
};

// A layer with other widths, measured beside what it is.
struct ShapeChange {
  std::string layer;  // with how many of the same sizes, "conv1", "layer1.0.conv1 (and 3 like it)"
  Index inputs = 0, outputs = 0, new_inputs = 0, new_outputs = 0;
  double saved_us = 0.0;         // of a step, of all layers alike
  std::int64_t added_bytes = 0;  // of inputs, results and weights in 16 bits
  std::string how;               // "a fourth channel of zeros in the loader", …
};

struct Advice {
  std::string phase;  // of a step
  std::string dtype;  // the 16-bit type
  Rates f32, low;
  std::string
      unit;  // what multiplies 16 bits here: "AMX", "AVX-512 BF16", "tensor cores"; "" when nothing does
  std::vector<OpAdvice> ops;  // in the order of forward
  std::vector<OpAdvice>
      worst;  // estimates in 16 bits that are furthest from what was measured, three at most
  std::vector<ShapeChange> changes;  // those that save anything, the most first
  Index batch = 0;
  std::optional<BatchAdvice> batch_advice;
  Index most = 0;        // what memory holds; 0: not known
  double ridge = 0.0;    // FLOP a byte at which products are not bound by memory, in 16 bits
  double f32_ms = 0.0;   // of a step, measured
  double closure = 0.0;  // ops and rest against whole steps, - 1
  StepShares shares;
  double factor = 1.0;  // of products: 16 bits against FP32, on this machine
  double expected = 1.0,
         bound = 1.0;  // speed-up of a step: by shares, and Amdahl's with infinitely fast products
  std::vector<amp::LintLine> lint;
};

// Of each phase of a step, measured for about `seconds` together on a made-up batch; what lint says of all
// stands with the last. Throws UserError for a precision other than O1 without lists and layers, as
// planning::make_plan.
std::vector<Advice> advise(const config::Loaded& loaded, double seconds);

// A task of one phase has its members at the top, others theirs under "phases".
nlohmann::ordered_json to_json(const std::vector<Advice>& phases);
// For a terminal.
void print(const std::string& name, const std::vector<Advice>& phases);

}  // namespace tandem::advise
