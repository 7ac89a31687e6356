// Sizes, sequence lengths and product operands, shared by forward and backward of recurrent layers.
#pragma once

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/row_products.h"
#include "core/kernels/rnn.h"
#include "core/op_options.h"

namespace tandem::cpu::TANDEM_LEVEL {

struct CpuRnn final : RnnKernels {
  RnnReserve rnn(const RnnForward& args) override;
  void rnn_backward(const RnnBackward& args) override;
};

struct RnnSizes {
  Index steps, rows, inputs, units, outputs, gates;  // T, N, I, H, P and G·H

  explicit RnnSizes(const RnnOptions& options, const RnnInputs& in)
      : steps(in.x.size(0)),
        rows(in.x.size(1)),
        inputs(in.x.size(2)),
        units(in.weight_hh.size(0) / gates_of(options.cell)),
        outputs(in.weight_hh.size(1)),
        gates(in.weight_hh.size(0)) {}

  // Number of threads for a step; short steps use one thread, because a barrier would cost more.
  int team() const;
};

// Active rows per step. Steps are numbered in the order of computation.
class RnnSteps {
 public:
  RnnSteps(const RnnOptions& options, Index steps)
      : steps_(steps),
        reverse_(options.reverse),
        lengths_(options.lengths.defined() ? options.lengths.data<std::int64_t>() : nullptr) {}

  Index time(Index step) const { return reverse_ ? steps_ - 1 - step : step; }
  bool active(Index time, Index row) const { return !lengths_ || time < lengths_[row]; }
  // Whether row lengths may differ.
  bool ragged() const { return lengths_ != nullptr; }
  bool reverse() const { return reverse_; }
  Index length(Index row) const { return lengths_ ? lengths_[row] : steps_; }

 private:
  Index steps_;
  bool reverse_;
  const std::int64_t* lengths_;
};

// Panel number `i` of a thread in a step. The direction alternates between steps, so that a step starts with
// the panels that the previous one left in L2.
inline Index panel_in_turn(Range panels, Index i, Index step) {
  return step % 2 == 0 ? panels.first + i : panels.last - 1 - i;
}

// Input rows of a product in its storage type, with double buffering.
template <class Products>
class RnnOperand {
 public:
  using Storage = typename Products::Storage;
  RnnOperand(const Products& products, Index rows)
      : step_(products.operand_step()),
        size_(products.padded_rows(rows) * step_),
        memory_(Tensor::zeros({2, size_}, {.dtype = dtype_of<Storage>(), .kind = MemoryKind::workspace})) {}

  Storage* row(Index set, Index row) const {
    return memory_.data<Storage>() + (set & 1) * size_ + row * step_;
  }
  const Storage* all(Index set) const { return row(set, 0); }

 private:
  Index step_, size_;
  Tensor memory_;
};

// Prefetches values for the cells during the product: hardware does not predict short pieces of long rows.
template <class T>
void fetch(const T* values, Index count) {
  constexpr Index kLine = 64 / sizeof(T);
  for (Index i = 0; i < count; i += kLine) __builtin_prefetch(values + i);
  if (count > 0) __builtin_prefetch(values + count - 1);
}

// Loads at most sixteen values and pads them with zeros to sixteen.
template <class S, class T>
[[gnu::always_inline]] inline void load_units(const S* from, T* to, Index count) {
  if constexpr (std::is_same_v<T, float>) {
    store(to, count == kLanes ? load(from) : load_first(from, static_cast<int>(count)));
  } else {
    for (Index i = 0; i < kLanes; ++i) to[i] = i < count ? convert<T>(from[i]) : T(0);
  }
}

// Stores the first `count` of sixteen values.
template <class T, class S>
[[gnu::always_inline]] inline void store_units(const T* from, S* to, Index count) {
  if constexpr (std::is_same_v<T, float>) {
    if (count == kLanes) [[likely]] {
      store(to, load(from));
    } else {
      store_first(to, load(from), static_cast<int>(count));
    }
  } else {
    for (Index i = 0; i < count; ++i) to[i] = convert<S>(from[i]);
  }
}

// Rounds sixteen values to S, stores the first `count`, and copies the rounded values to an operand.
template <class S, class Storage, class T>
[[gnu::always_inline]] inline void store_rounded(const T* x, S* stored, Storage* operand, Index count) {
  T held[kLanes];
  store_units(x, stored, count);
  load_units(stored, held, count);
  store_units(held, operand, count);
}

// Steps [first, last) of a layer, computed by forward, or by backward when it recomputes. h and c hold the
// states before the steps on entry and those after them on return.
struct RnnRange {
  Index first, last;
  Tensor h, c;           // [N,P] in the dtype of x, [N,H] in the arithmetic type; read and written
  Tensor y;              // [T,N,P], optional
  Tensor gates, states;  // as in host_reserve, but only the steps of this range in time order; optional
  Tensor segments;       // [⌈T/kRnnSegment⌉,N,H], optional: c before each segment
};

void rnn_steps(const RnnOptions& options, const RnnInputs& in, const RnnRange& range);

}  // namespace tandem::cpu::TANDEM_LEVEL
