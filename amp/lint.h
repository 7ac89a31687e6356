// Precision lint: constants, ranges and patterns of a model that do not fit 16 bits, found before the first
// step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/plan/graph.h"
#include "nn/module.h"

namespace tandem::amp {

// Limits are those of FP16 (of BF16). A "stored" tensor is written or read in 16 bits.
enum class LintRule : std::uint8_t {
  constant,     // a constant of an op with a 16-bit result that is infinite: magnitude from 65520 on (2^128)
  mask,         // the same, negative and added, as in attention masks
  epsilon,      // an added constant that is zero: at most 2^-25 (2^-134)
  subnormal,    // an added constant that is subnormal: below 6.1e-5 (1.2e-38)
  exponential,  // exp, stored: infinite above 11.09 (88.7), zero below -17.33 (-92.9)
  square,       // x², stored: infinite from 255.97 on
  reciprocal,   // 1/x or a quotient, stored: infinite, of x below 1.53e-5
  saturation,   // log(1 - y) of a stored y = σ(x), x above 8.32 (6.24), or tanh, above 4.51 (3.47)
  log_of_sum,   // the logarithm of a stored sum
  sum,          // a 16-bit sum whose n·amax exceeds 65504; by an op of a user's, n > 2048 (256)
  variance,     // mean(x²) - mean(x)² with |mean|/deviation > 45 (16), a part of it stored
  deviation,    // stored input of a norm or variance with |mean|/deviation > 2048 (256)
  position,     // integers above 2048 (256), stored
  loss,         // exp, log, pow or a division outside the model that reads 16 bits
  range,        // any other stored value that is infinite in the type
  amax,         // any other stored value above 512, FP16 only
  weights,      // more than 0.1 % of a parameter's values are zero in FP16
};

// "constant", "log of a sum", …
const char* name_of(LintRule rule);

struct LintLine {
  LintRule rule;
  plan::OpKey key;
  double value = 0.0;
  DType dtype = DType::f16;
  std::string what, way_out;
};

// "block.exp exp: its input reaches 12.3: infinite in f16 above 11.09; …"
std::string to_string(const LintLine& line);

// Checks the values of a step under `resolved`: one forward per phase, which returns its loss and is called
// twice (see WatchedForward). Findings are in the order of forward, parameters last; each tensor is reported
// once, where it first leaves the range. Empty when nothing is lowered.
std::vector<LintLine> lint(nn::Module& model, const ResolvedPrecision& resolved,
                           const std::vector<std::function<Tensor()>>& phases);

}  // namespace tandem::amp
