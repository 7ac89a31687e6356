// Traits of an op: facts that reports, the planner and exports ask it for. They stand in its OpInfo
// (autograd/op.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace tandem {

struct OpInfo;

// Kinds of ops. From `moves` on, results hold values of the inputs and nothing is rounded.
enum class OpKind : std::uint8_t {
  other,  // the op does not say
  elementwise,
  adds,  // sums and differences: backward may hand the gradient of the result on as it is
  casts,
  product,     // matrix products and convolutions, whose gradients are ops of their own
  recurrent,   // products step by step; backward is one kernel
  attention,   // products around a softmax; backward is one kernel
  reduces,     // sums, means, average pooling
  normalises,  // within a sample: softmax, layer norm
  batch_norm,
  loss,
  draws,     // random numbers
  looks_up,  // rows of a table, rounded: embedding
  computes,  // anything else
  // Gradients are moved as the values are.
  moves,  // each value at most once: reshape, permute, slice
  joins,  // several inputs: concat, stack
  pads,   // and a constant
  negates,
  // Gradients are summed, or go to some of the inputs only.
  repeats,  // broadcast_to
  gathers,  // at indices
  selects,  // max, max_pool2d, where
  folds,    // relu, abs
};

constexpr bool keeps_values(OpKind kind) { return kind >= OpKind::moves; }
constexpr bool moves_gradients(OpKind kind) { return kind >= OpKind::moves && kind <= OpKind::negates; }

// Size of a product: y[m,n] is a sum over k, `count` times. In a convolution, k are the channels of a group
// at each of `taps` positions of the filter.
struct ProductSize {
  Index m = 0, n = 0, k = 0, count = 1, taps = 1;

  std::int64_t multiply_adds() const { return m * n * k * count; }
};
// Products of one call; those left over have the size 0.
using ProductSizes = std::array<ProductSize, 3>;

struct OpTraits {
  OpKind kind = OpKind::other;
  const char* family = nullptr;  // in reports; nullptr: the family of the kind, see family_of
  // Sizes of a call's products from its inputs and outputs, in the order of the op's members. An op of the
  // kinds `product`, `recurrent` and `attention` without it does not compile.
  ProductSizes (*products)(std::span<const Tensor> inputs, std::span<const Tensor> outputs) = nullptr;
  int weight = -1;                     // the input that is a layer's weight; -1: products of activations
  bool one_type = false;               // a product whose kernel computes in the type that it stores
  bool keeps_type = false;             // the kernel writes the type that it reads
  bool marks_rows = false;             // backward writes rows only, and marks them in a sink that has marks
  std::uint8_t wide_results = 0;       // bit i: result i is f32 (f64 of f64) whatever the type of the others
  const OpInfo* trained_as = nullptr;  // the op that runs in its place in training
  const char* onnx = nullptr;  // the ONNX operator of the same elementwise function, without attributes

  // False without the formula that its kind asks for.
  constexpr bool is_complete() const {
    return products || (kind != OpKind::product && kind != OpKind::recurrent && kind != OpKind::attention);
  }
  // Results have the values and the type of the input, in another place.
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

// "conv": the group that reports count an op in, a folder's name of autograd/ops for those of the tree.
constexpr const char* family_of(const OpTraits& traits) {
  constexpr const char* of_kind[] = {
      "other", "elementwise", "elementwise", "cast",   "matmul", "rnn",        "attention", "reduce",
      "norm",  "norm",        "loss",        "random", "index",  "other",      "shape",     "shape",
      "shape", "elementwise", "shape",       "index",  "reduce", "elementwise"};
  return traits.family ? traits.family : of_kind[static_cast<int>(traits.kind)];
}

}  // namespace tandem
