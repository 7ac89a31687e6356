// Common parts of forward and backward of recurrent layers on a GPU: sizes, lengths, and steps of a range.
#pragma once

#include <cuda_runtime.h>

#include <initializer_list>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/lengths.h"
#include "core/cuda/numeric.h"
#include "core/cuda/padding.h"
#include "core/kernels/rnn.h"
#include "core/op_options.h"

namespace tandem::cuda {

struct CudaRnn final : GpuKernels<RnnKernels> {
  using GpuKernels::GpuKernels;

  RnnReserve rnn(const RnnForward& args) override;
  void rnn_backward(const RnnBackward& args) override;
};

struct RnnSizes {
  Index steps, rows, inputs, units, outputs, gates;  // T, N, I, H, P and G·H
  // Elements between rows of the operands and results of a step's products.
  Index units_row, outputs_row, gates_row;

  RnnSizes(const RnnOptions& options, const RnnInputs& in)
      : steps(in.x.size(0)),
        rows(in.x.size(1)),
        inputs(in.x.size(2)),
        units(in.weight_hh.size(0) / gates_of(options.cell)),
        outputs(in.weight_hh.size(1)),
        gates(in.weight_hh.size(0)),
        units_row(padded_row(units)),
        outputs_row(padded_row(outputs)),
        gates_row(padded_row(gates)) {}
};

// Recurrent weights, copied once per pass if their rows are not aligned to 16 bytes.
struct RnnStepWeights {
  Tensor hh, hr;  // padded: [G·H,P], and [P,H] or absent

  RnnStepWeights(CudaBackend& backend, const RnnSizes& n, const RnnInputs& in)
      : hh(padded(backend, in.weight_hh, n.gates_row, n.outputs_row)),
        hr(in.weight_hr.defined() ? padded(backend, in.weight_hr, n.outputs_row, n.units_row) : Tensor()) {}
};

// Active rows per step, for kernels. `of` is null if every row has all steps.
struct RowLengths {
  const Index* of;
  Index steps;
  bool reverse;

  __device__ __forceinline__ bool active(Index time, Index row) const {
    return of == nullptr || time < of[row];
  }
  // Whether the row's first step is this one or a later one: its states are then h0 and c0.
  __device__ __forceinline__ bool begins(Index time, Index row) const {
    if (!reverse) return time == 0;
    return time >= (of == nullptr ? steps : of[row]) - 1;
  }
};

// Workspace for [rows, columns] in padded rows, with zeros in the padding.
inline Tensor padded_workspace(CudaBackend& backend, Index rows, Index columns, DType dtype) {
  const Tensor room = backend.workspace({rows, padded_row(columns)}, dtype);
  if (columns != padded_row(columns)) backend.fill(room, 0.0);
  return room;
}

// Steps of a layer in the order of computation. Throws as lengths_on_device.
class RnnSteps {
 public:
  RnnSteps(CudaBackend& backend, const RnnOptions& options, const RnnSizes& sizes)
      : steps_(sizes.steps),
        reverse_(options.reverse),
        lengths_(lengths_on_device(backend, options.lengths, name_of(options.cell))) {}

  Index time(Index step) const { return reverse_ ? steps_ - 1 - step : step; }
  // The earliest time of steps [first, last).
  Index first_time(Index first, Index last) const { return reverse_ ? steps_ - last : first; }
  bool ragged() const { return lengths_.defined(); }
  bool reverse() const { return reverse_; }
  RowLengths lengths() const { return {data_or_null<Index>(lengths_), steps_, reverse_}; }

 private:
  Index steps_;
  bool reverse_;
  Tensor lengths_;  // i64 [N] on the device
};

// Steps [first, last) of a layer, computed by forward, or by backward when it recomputes. h and c hold the
// states before the steps on entry and those after them on return.
struct RnnRange {
  Index first, last;
  Tensor h, c{};             // padded [N,P] in the dtype of x, [N,H] in the arithmetic type; read and written
  Tensor y{};                // [T,N,P], optional
  Tensor gates{}, states{};  // as in host_reserve, but only these steps in time order; optional
  Tensor segments{};         // [⌈T/kRnnSegment⌉,N,H], optional: c before each segment
};

void rnn_steps(CudaBackend& backend, const RnnOptions& options, const RnnInputs& in,
               const RnnStepWeights& weights, const RnnSteps& steps, const RnnRange& range);

// ---- Kernels: a thread has kWidth adjacent units of a row

inline constexpr int kRnnWidth = 4;

// Whether rows of `width` elements can be accessed kRnnWidth at a time in all defined `tensors`.
inline bool takes_packs(Index width, std::initializer_list<Tensor> tensors) {
  bool packs = width % kRnnWidth == 0;
  for (const Tensor& t : tensors)
    packs = packs && (!t.defined() || is_aligned(t.raw(), kRnnWidth * size_of(t.dtype())));
  return packs;
}

// Blocks for a thread per pack of units.
constexpr Index blocks_of(Index rows, Index width, bool packs) {
  return ceil_div(rows * width / (packs ? kRnnWidth : 1), kThreads);
}

// Type of the saved states of a cell.
template <class S, class Cell>
using StateOf = std::conditional_t<Cell::kCellState, ComputeType<S>, S>;

struct Units {
  Index row, first;  // of its units
};

// Returns false for threads beyond rows·width/kWidth.
template <int kWidth>
__device__ __forceinline__ bool find_units(Index rows, Index width, Units& units) {
  const Index thread = Index{blockIdx.x} * blockDim.x + threadIdx.x, packs = width / kWidth;
  units.row = thread / packs;
  units.first = (thread - units.row * packs) * kWidth;
  return units.row < rows;
}

template <int kWidth, class S>
__device__ __forceinline__ void read(const S* from, ComputeType<S> (&to)[kWidth]) {
  const Pack<S, kWidth> values = *reinterpret_cast<const Pack<S, kWidth>*>(from);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) to[i] = load(&values.value[i]);
}
// Reads zeros if `from` is null.
template <int kWidth, class S>
__device__ __forceinline__ void read_if(const S* from, Index at, ComputeType<S> (&to)[kWidth]) {
  if (from != nullptr) return read<kWidth>(from + at, to);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) to[i] = ComputeType<S>(0);
}

template <int kWidth, class S>
__device__ __forceinline__ void write(S* to, const ComputeType<S> (&from)[kWidth]) {
  Pack<S, kWidth> values;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) store(&values.value[i], from[i]);
  // One word, because nvcc stores a pack in registers element by element.
  if constexpr (sizeof(values) <= 16) {
    using Word = MemoryWord<sizeof(values)>;
    __stwb(reinterpret_cast<Word*>(to), __builtin_bit_cast(Word, values));
  } else {
    *reinterpret_cast<Pack<S, kWidth>*>(to) = values;
  }
}
template <int kWidth, class S>
__device__ __forceinline__ void write_zeros(S* to) {
  const ComputeType<S> zeros[kWidth] = {};
  write<kWidth>(to, zeros);
}

// [N, …] of one step of a tensor [steps, N, …], or undefined.
inline Tensor step_of(const Tensor& t, Index at) {
  return t.defined() ? t.rows(at, 1).viewed({t.size(1), t.size(2)}) : Tensor();
}

}  // namespace tandem::cuda
