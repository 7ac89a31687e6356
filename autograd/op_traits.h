// Traits of an op: facts for reports, the planner and exports, part of its OpInfo (autograd/op.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace tandem {

struct OpInfo;

// Kinds of ops. From `moves` on, results hold values of the inputs without rounding.
enum class OpKind : std::uint8_t {
  other,  // unspecified
  elementwise,
  adds,  // sums and differences; backward may pass the gradient of the result on unchanged
  casts,
  product,     // matrix products and convolutions, with separate gradient ops
  recurrent,   // products step by step; backward is one kernel
  attention,   // products around a softmax; backward is one kernel
  reduces,     // sums, means, average pooling
  normalises,  // within a sample: softmax, layer norm
  batch_norm,
  loss,
  draws,     // random numbers
  looks_up,  // rows of a table, rounded: embedding
  computes,  // anything else
  // Gradients move like the values.
  moves,  // each value at most once: reshape, permute, slice
  joins,  // several inputs: concat, stack
  pads,   // and a constant
  negates,
  // Gradients are summed, or go only to some of the inputs.
  repeats,  // broadcast_to
  gathers,  // at indices
  selects,  // max, max_pool2d, where
  folds,    // relu, abs
};

constexpr bool keeps_values(OpKind kind) { return kind >= OpKind::moves; }
constexpr bool moves_gradients(OpKind kind) { return kind >= OpKind::moves && kind <= OpKind::negates; }

// Size of a product: y[m,n] is a sum over k, `count` times. In a convolution, k are the channels of a group
// at each of `taps` filter positions.
struct ProductSize {
  Index m = 0, n = 0, k = 0, count = 1, taps = 1;

  std::int64_t multiply_adds() const { return m * n * k * count; }
};
// Products of one call; unused ones have size 0.
using ProductSizes = std::array<ProductSize, 3>;

struct OpTraits {
  OpKind kind = OpKind::other;
  const char* family = nullptr;  // in reports; nullptr: the kind's family, see family_of
  // Sizes of a call's products from its inputs and outputs, in the order of the op's members. Mandatory for
  // the kinds `product`, `recurrent` and `attention`.
  ProductSizes (*products)(std::span<const Tensor> inputs, std::span<const Tensor> outputs) = nullptr;
  int weight = -1;                     // index of the weight input; -1: product of activations
  bool one_type = false;               // a product whose kernel computes in its storage type
  bool keeps_type = false;             // the kernel's output type is its input type
  bool marks_rows = false;             // backward writes only rows, and marks them in a sink with marks
  std::uint8_t wide_results = 0;       // bit i: result i is f32 (f64 for f64) for any type of the others
  const OpInfo* trained_as = nullptr;  // the op that replaces it in training
  const char* onnx = nullptr;          // equivalent ONNX elementwise operator without attributes

  // False if the kind requires `products` and it is missing.
  constexpr bool is_complete() const {
    return products || (kind != OpKind::product && kind != OpKind::recurrent && kind != OpKind::attention);
  }
  // Whether results keep the values and the type of the input, in another place.
  constexpr bool moves_values() const {
    return kind == OpKind::moves || kind == OpKind::pads || kind == OpKind::repeats;
  }
  constexpr bool is_wide(std::size_t result) const {
    return result < 8 && (wide_results >> result & 1u) != 0;
  }
  // Multiply-adds of a forward call; 0 without products.
  std::int64_t multiply_adds(std::span<const Tensor> inputs, std::span<const Tensor> outputs) const {
    std::int64_t sum = 0;
    if (products)
      for (const ProductSize& size : products(inputs, outputs)) sum += size.multiply_adds();
    return sum;
  }
};

// Group of an op in reports, e.g. "conv"; for built-in ops the folder's name in autograd/ops.
constexpr const char* family_of(const OpTraits& traits) {
  constexpr const char* of_kind[] = {
      "other", "elementwise", "elementwise", "cast",   "matmul", "rnn",        "attention", "reduce",
      "norm",  "norm",        "loss",        "random", "index",  "other",      "shape",     "shape",
      "shape", "elementwise", "shape",       "index",  "reduce", "elementwise"};
  return traits.family ? traits.family : of_kind[static_cast<int>(traits.kind)];
}

}  // namespace tandem
