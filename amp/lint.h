// What of a model does not fit 16 bits, found before the first step: constants, ranges and patterns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/plan/graph.h"
#include "nn/module.h"

namespace tandem::amp {

// Limits are of FP16 (of BF16). "Stored" is a tensor whose maker writes 16 bits, or that a reader takes in
// 16 bits.
enum class LintRule : std::uint8_t {
  constant,     // a constant of an op with a 16-bit result, from 65520 on in magnitude (2^128): infinite
  mask,         // the same, negative and added: what masks are made of
  epsilon,      // a constant that is added, at most 2^-25 (2^-134): zero
  subnormal,    // and below 6.1e-5 (1.2e-38): rounded coarsely
  exponential,  // exp, stored: infinite above 11.09 (88.7), zero below -17.33 (-92.9)
  square,       // x², stored: infinite from 255.97 on
  reciprocal,   // 1/x or a quotient, stored: infinite, of x below 1.53e-5
  saturation,   // log(1 - y) of a stored y = σ(x), x above 8.32 (6.24), or tanh, above 4.51 (3.47)
  log_of_sum,   // the logarithm of a stored sum
  sum,          // a 16-bit sum whose n·amax exceeds 65504; by an op of a user's, n > 2048 (256)
  variance,     // mean(x²) - mean(x)² with |mean|/deviation > 45 (16), a part of it stored
  deviation,    // what a norm or variance reads, stored, with |mean|/deviation > 2048 (256)
  position,     // integers above 2048 (256), stored
  loss,         // exp, log, pow or a division outside of the model that reads 16 bits
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

// What `plan` would do to the values of a step: a forward for each phase, which gives its loss, and is called
// twice (see WatchedForward). In the order of forward, parameters last; each tensor is told of once, where it
// first leaves the range. Nothing when the plan lowers nothing.
std::vector<LintLine> lint(nn::Module& model, const ResolvedPrecision& plan,
                           const std::vector<std::function<Tensor()>>& phases);

}  // namespace tandem::amp
