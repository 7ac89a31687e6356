// The class of attention kernels, and what forward and backward of additive attention share: sizes, load and
// store helpers and the vector u.
#pragma once

#include "core/cpu/kernels/softmax_rows.h"
#include "core/kernels/attention.h"
#include "core/kernels/attention_formulas.h"
#include "core/op_options.h"

namespace tandem::cpu::TANDEM_LEVEL {

struct CpuAttention final : AttentionKernels {
  void attention(const AttentionForward& args) override;
  void attention_backward(const AttentionBackward& args) override;
  void masked_softmax(const Tensor& x, const AttentionMask& mask, const Tensor& y) override;
  void masked_softmax_backward(const Tensor& y, const Tensor& dy, const AttentionMask& mask,
                               const Tensor& dx) override;
  void additive_attention(const AdditiveForward& args) override;
  void additive_attention_backward(const AdditiveBackward& args) override;
};

struct AdditiveSizes {
  Index queries, keys, rows, features, channels;  // Tq, Tk, N, A, C

  explicit AdditiveSizes(const AdditiveInputs& in)
      : queries(in.query.size(0)),
        keys(in.key.size(0)),
        rows(in.query.size(1)),
        features(in.query.size(2)),
        channels(in.value.size(2)) {}

  // A tanh costs about as much as eight elements of a kernel that only moves data.
  bool parallel() const { return queries * rows * keys * features >= kParallelElements / 8; }
};

// Loads row `row` of t [rows,width], converted to C.
template <class C>
void load_row(const Tensor& t, Index row, Index width, C* to) {
  load_block(t.raw(), t.dtype(), row * width, to, width);
}

// Stores `count` elements of a gradient from `first` on, unless the gradient is absent. Overwrites x.
template <class C>
void put(const GradOutput& to, Index first, C* x, Index count) {
  if (!to.tensor.defined()) return;
  if (to.accumulate) {
    add_block(x, to.tensor.raw(), to.tensor.dtype(), first, count);
  } else {
    store_block(x, to.tensor.raw(), to.tensor.dtype(), first, count);
  }
}

// v, ‖v‖ and g in C, and the vector u computed from them.
template <class C>
struct Direction {
  std::vector<C> v, u;
  C norm = 1, g = 1;

  explicit Direction(const AdditiveInputs& in) : v(static_cast<std::size_t>(in.v.numel())), u(v.size()) {
    const Index n = in.v.numel();
    load_row(in.v, 0, n, v.data());
    if (in.g.defined()) {
      load_row(in.g, 0, 1, &g);
      norm = math::sqrt(sum_of<C>(n, [&](Index i) { return v[i] * v[i]; }));
    }
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = in.g.defined() ? v[i] * (g / norm) : v[i];
  }
};

}  // namespace tandem::cpu::TANDEM_LEVEL
