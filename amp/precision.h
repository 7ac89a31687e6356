// Precision: which type every op runs in, as a value. It says nothing about when; amp/autocast.h applies it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"

namespace tandem::amp {

// The levels of Apex, as presets over the same rules.
enum class Level : std::uint8_t {
  O0,  // f32: nothing is cast
  O1,  // every op by its cast rule (autograd/op.h)
  O2,  // everything 16-bit but the ops of rule `fp32` and f32 parameters of normalisation layers
};

// Ops moved from the rule they declare to another, by name ("softmax"). An op stands in at most one list.
struct OpLists {
  std::vector<std::string> allow;  // lower: inputs cast to the 16-bit type
  std::vector<std::string> deny;   // fp32: f32 arithmetic and result
  std::vector<std::string> infer;  // neutral: the type of the inputs
};

// Layers whose whole path contains a match of `match` (an ECMAScript regular expression) run in `dtype`, with
// everything below them. Of two that match, the later one counts.
struct LayerRule {
  std::string match;
  DType dtype = DType::f32;  // f32, f16 or bf16
};

struct Precision {
  Level level = Level::O0;
  DType dtype = DType::bf16;  // the 16-bit type: f16 or bf16
  // Every contribution to a weight gradient is rounded to 16 bits first, as PyTorch does; off: f32.
  bool round_weight_gradients = false;
  OpLists lists{};
  std::vector<LayerRule> layers{};

  static Precision fp32() { return {}; }
  static Precision amp_fp16() { return {.level = Level::O1, .dtype = DType::f16}; }
  static Precision amp_bf16() { return {.level = Level::O1, .dtype = DType::bf16}; }

  bool lowers() const { return level != Level::O0; }
};

// Throws UserError for a dtype that is not 16-bit, an op that does not exist (with the nearest names), an op
// in two lists, and an expression that is none.
void check(const Precision& precision);

}  // namespace tandem::amp
