// Precision: the types of all ops and of the weights, and loss scaling, as a value. amp/autocast.h applies it
// to ops, step_options to the training step.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "optim/step.h"

namespace tandem::amp {

// The levels of Apex as presets over the same rules.
enum class Level : std::uint8_t {
  O0,  // f32: nothing is cast
  O1,  // every op by its cast rule (autograd/op.h)
  O2,  // everything 16-bit except ops of rule `fp32` and f32 parameters of normalisation layers
  O3,  // as O2 with 16-bit weights: without masters, which shows their purpose
};

// Ops moved from their declared rule to another, by name ("softmax"). An op may be in one list only.
struct OpLists {
  std::vector<std::string> allow;  // lower: inputs cast to the 16-bit type
  std::vector<std::string> deny;   // fp32: f32 arithmetic and result
  std::vector<std::string> infer;  // neutral: the type of the inputs

  bool empty() const { return allow.empty() && deny.empty() && infer.empty(); }
};

// Layers whose path contains a match of `match` (an ECMAScript regular expression) run in `dtype`, including
// all modules below. The last matching rule wins. As NVCaffe's types per layer: forward, forward_math,
// backward.
struct LayerRule {
  std::string match;
  DType dtype = DType::f32;  // f32, f16 or bf16: storage type of results
  // Type of products' operands: f32, or a 16-bit type if `dtype` is f32 or the same. Recurrent cells compute
  // in their storage type.
  std::optional<DType> math{};  // absent: as dtype
  // f32: gradients of all 16-bit results of the layer are f32, so that none is flushed; forward keeps its
  // bits.
  std::optional<DType> backward{};  // absent or dtype; no other value

  DType multiplies_in() const { return math.value_or(dtype); }
  bool widens_gradients() const { return is_16bit(dtype) && backward == DType::f32; }
};

struct Precision {
  Level level = Level::O0;
  DType dtype = DType::bf16;  // the 16-bit type: f16 or bf16
  // f32 masters of the weights. Without them an update is rounded to the 16-bit type when stored. (Values
  // equal those of 16-bit storage bit for bit, but are kept in f32 buffers, which saves no memory.)
  bool masters = true;
  bool stochastic_rounding = false;  // of weights without masters
  DType state_dtype = DType::f32;    // storage rounding of the optimizer state
  // Running statistics of batch norm, and its parameters in forward, are 16-bit.
  bool lower_batch_norm = false;
  // Round every contribution to a weight gradient to 16 bits first, as PyTorch does; off: f32.
  bool round_weight_gradients = false;
  optim::ScalerOptions scaler{};
  OpLists lists{};
  std::vector<LayerRule> layers{};

  static Precision fp32() { return {}; }
  static Precision amp_fp16() {
    return {.level = Level::O1, .dtype = DType::f16, .scaler = optim::ScalerOptions::dynamic()};
  }
  static Precision amp_bf16() { return {.level = Level::O1, .dtype = DType::bf16}; }
  static Precision o2(DType dtype);
  static Precision o3(DType dtype);

  bool lowers() const { return level != Level::O0; }
  // Level O1 without lists, layers and 16-bit batch norm, from which plans start.
  bool is_plain_o1() const {
    return level == Level::O1 && layers.empty() && lists.empty() && !lower_batch_norm;
  }
  // Whether anything, the model or a layer, may run in this 16-bit type.
  bool runs_in(DType type) const;
};

// The precision's part of a step's options: scaler, working copies, rounding. `seed`: of stochastic rounding.
optim::StepOptions step_options(const Precision& precision, std::uint64_t seed = 0);

// Throws UserError for a dtype that is not 16-bit, an unknown op (with the nearest names), an op in two
// lists, an invalid expression, and contradicting parts: a scaler with FP32, O2 without masters, O3 with
// them, stochastic rounding with masters.
void check(const Precision& precision);

}  // namespace tandem::amp
