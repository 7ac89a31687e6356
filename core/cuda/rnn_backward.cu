// Recurrent layers, backward. For each step from last to first, a product of the gate gradients with the
// recurrent weights is added to the gradient of h, and a kernel computes the cells of all rows. Products and
// sums over all steps follow (core/rnn_gradients.h). Gradients of h and c stay in the arithmetic type.
// Operands and results of the step products have padded rows, as in forward.
#include <algorithm>

#include "core/cuda/rnn.h"
#include "core/kernels/matmul.h"
#include "core/kernels/rnn_formulas.h"
#include "core/rnn_gradients.h"

namespace tandem::cuda {

namespace {

// One step of all rows. Pointers may be null, which reads as zeros.
template <class S>
struct CellBackward {
  using T = ComputeType<S>;
  const S* gates;      // [N,G·H], from forward
  const void* states;  // [N,H]: from forward (of T for lstm), or y for plain cells
  const void* before;  // [N,H]: c before the step, of T, or y of the previous step
  const S* h0;         // [N,H]: gru: initial state of rows that begin
  const S* dy;         // [N,H]
  T* carry;            // [N,H] in rows of h_row: gradient of h, updated for the previous step; null
                       // with a projection
  const T* du;         // [N,H] in rows of h_row: gradient of the projection's input; otherwise null
  T* dc;               // [N,H], read and written
  S *da, *dq;          // [N,G·H], written; dq only for gru
  S* chain;            // [N,G·H] in rows of chain_row: another copy of dq (da) for the product; optional
  S* u;                // [N,H]: input of the projection, written
  S* began;            // [N,G·H]: receives dq of rows that begin here; optional
  Index rows, units, h_row, chain_row, time;
  RowLengths lengths;
};

template <class S, class Cell, int kWidth>
__device__ __forceinline__ void pass_by(const CellBackward<S>& step, Units units) {
  if (step.u != nullptr) write_zeros<kWidth>(step.u + units.row * step.units + units.first);
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) {
    const Index column = g * step.units + units.first, gate = units.row * Cell::kGates * step.units + column;
    write_zeros<kWidth>(step.da + gate);
    if (Cell::kSeparateQ) write_zeros<kWidth>(step.dq + gate);
    if (step.chain != nullptr) write_zeros<kWidth>(step.chain + units.row * step.chain_row + column);
  }
}

// Gradient of the cell's output. `carry` keeps the part for the previous step that bypasses the product.
template <class S, class Cell, int kWidth>
__device__ __forceinline__ void take_gradient(const CellBackward<S>& step, Index at, Index at_h,
                                              ComputeType<S> (&dh)[kWidth]) {
  if (step.du != nullptr) return read<kWidth>(step.du + at_h, dh);
  ComputeType<S> dy[kWidth];
  read<kWidth>(step.carry + at_h, dh);
  read_if<kWidth>(step.dy, at, dy);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) dh[i] += dy[i];
  if constexpr (!Cell::kSeparateQ) write_zeros<kWidth>(step.carry + at_h);
}

// c before the step, or h for gru.
template <class S, class Cell, int kWidth>
__device__ __forceinline__ void read_before(const CellBackward<S>& step, Units units, bool begins,
                                            ComputeType<S> (&before)[kWidth]) {
  const Index at = units.row * step.units + units.first;
  if constexpr (Cell::kSeparateQ) {
    read_if<kWidth>(begins ? step.h0 : static_cast<const S*>(step.before), at, before);
  } else if constexpr (Cell::kCellState) {
    read_if<kWidth>(static_cast<const ComputeType<S>*>(step.before), at, before);
  }
}

template <class S, class Cell, int kWidth>
__global__ void __launch_bounds__(kThreads) rnn_cell_gradient_kernel(CellBackward<S> step) {
  using T = ComputeType<S>;
  constexpr int kGates = Cell::kGates;
  await_earlier_work();
  Units units;
  if (!find_units<kWidth>(step.rows, step.units, units)) return;
  if (!step.lengths.active(step.time, units.row)) return pass_by<S, Cell, kWidth>(step, units);
  const Index at = units.row * step.units + units.first, at_h = units.row * step.h_row + units.first;
  const Index row_gates = units.row * kGates * step.units + units.first;
  const bool begins = step.lengths.begins(step.time, units.row);
  T gates[kGates][kWidth] = {}, state[kWidth], before[kWidth] = {}, dh[kWidth], dc[kWidth] = {};
  if constexpr (Cell::kKeepsGates) {
#pragma unroll
    for (int g = 0; g < kGates; ++g) read<kWidth>(step.gates + row_gates + g * step.units, gates[g]);
  }
  read<kWidth>(static_cast<const StateOf<S, Cell>*>(step.states) + at, state);
  read_before<S, Cell, kWidth>(step, units, begins, before);
  take_gradient<S, Cell, kWidth>(step, at, at_h, dh);
  if constexpr (Cell::kCellState) read<kWidth>(step.dc + at, dc);

  T da[kGates][kWidth], dq[kWidth], u[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    rnn::Kept<T> kept{{}, state[i]};
#pragma unroll
    for (int g = 0; g < kGates; ++g) kept.gate[g] = gates[g][i];
    const rnn::Gradients<T> of = Cell::backward(kept, before[i], dh[i], dc[i]);
#pragma unroll
    for (int g = 0; g < kGates; ++g) da[g][i] = of.a[g];
    dq[i] = of.q;
    dc[i] = of.state;
    dh[i] = of.h;
    if constexpr (Cell::kCellState) u[i] = Cell::output(kept.gate[3], state[i]);
  }
  if constexpr (Cell::kCellState) {
    write<kWidth>(step.dc + at, dc);
    if (step.u != nullptr) write<kWidth>(step.u + at, u);
  }
  if constexpr (Cell::kSeparateQ) write<kWidth>(step.carry + at_h, dh);
#pragma unroll
  for (int g = 0; g < kGates; ++g) {
    const Index gate = row_gates + g * step.units;
    const auto& of_h = Cell::kSeparateQ && g == 2 ? dq : da[g];
    write<kWidth>(step.da + gate, da[g]);
    if constexpr (Cell::kSeparateQ) write<kWidth>(step.dq + gate, of_h);
    if (begins && step.began != nullptr) write<kWidth>(step.began + gate, of_h);
    if (step.chain != nullptr)
      write<kWidth>(step.chain + units.row * step.chain_row + g * step.units + units.first, of_h);
  }
}

// With projection: computes the gradient of h, and optionally a second copy for the product with the
// projection. Rows of that copy and of carry are `row` elements apart.
template <class S, int kWidth>
__global__ void __launch_bounds__(kThreads)
    rnn_hidden_gradient_kernel(ComputeType<S>* carry, const S* dy, S* dh, S* chain, Index rows, Index outputs,
                               Index row, Index time, RowLengths lengths) {
  using T = ComputeType<S>;
  await_earlier_work();
  Units units;
  if (!find_units<kWidth>(rows, outputs, units)) return;
  const Index at = units.row * outputs + units.first, at_row = units.row * row + units.first;
  if (!lengths.active(time, units.row)) {
    if (chain != nullptr) write_zeros<kWidth>(chain + at_row);
    return write_zeros<kWidth>(dh + at);
  }
  T sums[kWidth], of_y[kWidth];
  read<kWidth>(carry + at_row, sums);
  read_if<kWidth>(dy, at, of_y);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[i] += of_y[i];
  write_zeros<kWidth>(carry + at_row);
  write<kWidth>(dh + at, sums);
  if (chain != nullptr) write<kWidth>(chain + at_row, sums);
}

// The h that the product of a step read, in rows `row` elements apart: y of the previous step, or h0 for rows
// that begin.
template <class S>
__global__ void __launch_bounds__(kThreads)
    rnn_restart_kernel(const S* y, const S* h0, S* h, Index rows, Index outputs, Index row, Index time,
                       RowLengths lengths) {
  await_earlier_work();
  Units units;
  if (!find_units<1>(rows, outputs, units)) return;
  const Index at = units.row * outputs + units.first;
  const S* const from = lengths.begins(time, units.row) ? h0 : y;
  h[units.row * row + units.first] = from != nullptr ? from[at] : S{};
}

template <class S, class Cell>
class Backward {
  using T = ComputeType<S>;

 public:
  Backward(CudaBackend& backend, const RnnBackward& args)
      : backend_(backend),
        args_(args),
        n_(args.options, args.in),
        steps_(backend, args.options, n_),
        weights_(backend, n_, args.in) {
    const Tensor dh_n = backend.workspace({n_.rows, n_.outputs}, dtype_of<T>());
    start(args.dh_n, dh_n);
    carry_ = padded(backend, dh_n, n_.rows, n_.outputs_row);
    if (n_.gates_row != n_.gates) chain_ = padded_workspace(backend, n_.rows, n_.gates, dtype_of<S>());
    if constexpr (Cell::kCellState) {
      dc_ = backend.workspace({n_.rows, n_.units}, dtype_of<T>());
      start(args.dc_n, dc_);
    }
    if (args.in.h0.defined() && args.gradients[kWeightHh].tensor.defined() && steps_.ragged()) {
      began_ = backend.workspace({n_.rows, n_.gates}, dtype_of<S>());
      backend.fill(began_, 0.0);  // rows of length 0 never begin
    }
    if (!args.in.weight_hr.defined()) return;
    du_ = backend.workspace({n_.rows, n_.units_row}, dtype_of<T>());
    if (n_.outputs_row != n_.outputs)
      hidden_chain_ = padded_workspace(backend, n_.rows, n_.outputs, dtype_of<S>());
  }

  void run() {
    const Index segment = args_.options.recompute ? kRnnSegment : n_.steps;
    for (Index first = (n_.steps - 1) / segment * segment; first >= 0; first -= segment)
      range(first, std::min(first + segment, n_.steps));
    const GradOutput &h0 = args_.gradients[kH0], &c0 = args_.gradients[kC0];
    if (h0.tensor.defined()) {
      add_product();
      backend_.cast(dense_carry(), h0.tensor, h0.accumulate);
    }
    if (c0.tensor.defined()) backend_.cast(dc_, c0.tensor, c0.accumulate);
  }

 private:
  // Data of a range of steps: saved by forward, or needed by the products over all steps.
  struct Kept {
    Index first_time;
    Tensor gates, states;
    Tensor c;           // lstm: before the first step; undefined: zeros
    Tensor da{}, dq{};  // dq equals da except for gru
    Tensor dh{}, u{};   // with projection
  };

  void start(const Tensor& from, const Tensor& to) {
    from.defined() ? backend_.cast(from, to, false) : backend_.fill(to, 0.0);
  }

  Tensor dense_carry() {
    if (n_.outputs_row == n_.outputs) return carry_;
    const Tensor dense = backend_.workspace({n_.rows, n_.outputs}, dtype_of<T>());
    copy_unpadded(backend_, carry_, dense);
    return dense;
  }

  void range(Index first, Index last) {
    const Index count = last - first;
    Kept kept = forward_again(first, last);
    kept.da = backend_.workspace({count, n_.rows, n_.gates}, dtype_of<S>());
    kept.dq = Cell::kSeparateQ ? backend_.workspace(kept.da.shape(), dtype_of<S>()) : kept.da;
    if (du_.defined()) {
      kept.dh = backend_.workspace({count, n_.rows, n_.outputs}, dtype_of<S>());
      kept.u = backend_.workspace({count, n_.rows, n_.units}, dtype_of<S>());
    }
    for (Index step = last - 1; step >= first; --step) {
      if (last_dq_.defined()) add_product();
      const Index time = steps_.time(step), at = time - kept.first_time;
      if (du_.defined()) hidden(time, step_of(kept.dh, at));
      cells(step, kept);
      last_dq_ = step_of(kept.dq, at);
    }
    const Tensor& began = began_.defined() ? began_ : last_dq_;
    write_gradients(backend_, args_, {first, last, kept.da, kept.dq, began, kept.dh, kept.u});
  }

  // Gates and states of a range, saved by forward or recomputed.
  Kept forward_again(Index first, Index last) {
    const Index count = last - first;
    const Tensor& states = args_.reserve.states;
    Kept kept{.first_time = steps_.first_time(first, last),
              .gates = args_.reserve.gates,
              .states = states,
              .c = args_.in.c0};
    if (!args_.options.recompute || !Cell::kKeepsGates) return kept;
    RnnRange range{.first = first, .last = last, .h = h_before(first)};
    if constexpr (Cell::kCellState) {
      kept.c = step_of(states, first / kRnnSegment);
      range.c = backend_.workspace({n_.rows, n_.units}, dtype_of<T>());
      backend_.copy_bytes(kept.c, range.c);
    }
    kept.gates = range.gates = backend_.workspace({count, n_.rows, n_.gates}, dtype_of<S>());
    kept.states = range.states = backend_.workspace({count, n_.rows, n_.units}, dtype_of<StateOf<S, Cell>>());
    rnn_steps(backend_, args_.options, args_.in, weights_, steps_, range);
    return kept;
  }

  Tensor y_before(Index step) const { return step == 0 ? Tensor() : step_of(args_.y, steps_.time(step - 1)); }

  Tensor h_before(Index step) {
    Tensor h = padded_workspace(backend_, n_.rows, n_.outputs, dtype_of<S>());
    launch_early(name(), rnn_restart_kernel<S>, blocks_of(n_.rows, n_.outputs, false), kThreads,
                 backend_.stream(), data_or_null<S>(y_before(step)), data_or_null<S>(args_.in.h0),
                 h.data<S>(), n_.rows, n_.outputs, n_.outputs_row, steps_.time(step), steps_.lengths());
    return h;
  }

  // Adds the contribution of the following step to the gradient of h.
  void add_product() {
    backend_.matmul().matmul(chain_.defined() ? chain_ : last_dq_, weights_.hh, {}, carry_,
                             {.accumulate = true});
  }

  void hidden(Index time, const Tensor& dh) {
    const Tensor dy = step_of(args_.dy, time);
    const bool packs = takes_packs(n_.outputs, {carry_, dy, dh});
    launch_early(name(), packs ? rnn_hidden_gradient_kernel<S, kRnnWidth> : rnn_hidden_gradient_kernel<S, 1>,
                 blocks_of(n_.rows, n_.outputs, packs), kThreads, backend_.stream(), carry_.data<T>(),
                 data_or_null<S>(dy), dh.data<S>(), data_or_null<S>(hidden_chain_), n_.rows, n_.outputs,
                 n_.outputs_row, time, steps_.lengths());
    backend_.matmul().matmul(hidden_chain_.defined() ? hidden_chain_ : dh, weights_.hr, {}, du_, {});
  }

  // c before a step, or y of the previous step.
  Tensor state_before(Index step, const Kept& kept) const {
    if (!Cell::kCellState) return y_before(step);
    const Index at = steps_.reverse() ? steps_.time(step) + 1 : steps_.time(step) - 1;
    const bool within = at >= kept.first_time && at < kept.first_time + kept.da.size(0);
    return within ? step_of(kept.states, at - kept.first_time) : kept.c;
  }

  void cells(Index step, const Kept& kept) {
    const Index time = steps_.time(step), at = time - kept.first_time;
    const bool projected = du_.defined();
    const Tensor gates = step_of(kept.gates, at),
                 states = Cell::kKeepsGates ? step_of(kept.states, at) : step_of(args_.y, time),
                 before = state_before(step, kept), da = step_of(kept.da, at), dq = step_of(kept.dq, at),
                 u = step_of(kept.u, at), dy = projected ? Tensor() : step_of(args_.dy, time);
    const Tensor carry = projected ? Tensor() : carry_;
    const bool packs =
        takes_packs(n_.units, {gates, states, before, args_.in.h0, dy, carry, du_, dc_, da, dq, u, began_});
    launch_early(name(),
                 packs ? rnn_cell_gradient_kernel<S, Cell, kRnnWidth> : rnn_cell_gradient_kernel<S, Cell, 1>,
                 blocks_of(n_.rows, n_.units, packs), kThreads, backend_.stream(),
                 CellBackward<S>{.gates = data_or_null<S>(gates),
                                 .states = states.raw(),
                                 .before = before.defined() ? before.raw() : nullptr,
                                 .h0 = data_or_null<S>(args_.in.h0),
                                 .dy = data_or_null<S>(dy),
                                 .carry = data_or_null<T>(carry),
                                 .du = data_or_null<T>(du_),
                                 .dc = data_or_null<T>(dc_),
                                 .da = da.data<S>(),
                                 .dq = dq.data<S>(),
                                 .chain = data_or_null<S>(chain_),
                                 .u = data_or_null<S>(u),
                                 .began = data_or_null<S>(began_),
                                 .rows = n_.rows,
                                 .units = n_.units,
                                 .h_row = n_.units_row,
                                 .chain_row = n_.gates_row,
                                 .time = time,
                                 .lengths = steps_.lengths()});
  }

  static constexpr const char* name() {
    return Cell::kCellState ? "lstm_backward" : Cell::kSeparateQ ? "gru_backward" : "rnn_backward";
  }

  CudaBackend& backend_;
  const RnnBackward& args_;
  const RnnSizes n_;
  const RnnSteps steps_;
  const RnnStepWeights weights_;
  Tensor carry_;         // gradient of h: padded [N,P]
  Tensor dc_;            // gradient of c: [N,H]
  Tensor du_;            // gradient of the projection's input: padded [N,H]; optional
  Tensor began_;         // dq of the first step of each row, if rows begin at different steps
  Tensor last_dq_;       // of the last computed step
  Tensor chain_;         // its copy in padded rows, if last_dq_ is not aligned to 16 bytes
  Tensor hidden_chain_;  // like chain_, for h with projection
};

}  // namespace

void CudaRnn::rnn_backward(const RnnBackward& args) {
  if (args.in.x.size(1) == 0) {
    for (const GradOutput& to : args.gradients) {
      if (to.tensor.defined() && !to.accumulate) backend.fill(to.tensor, 0.0);
    }
    return;
  }
  visit_floating(args.in.x.dtype(), [&]<class S>(TypeTag<S>) {
    rnn::visit_cell(args.options.cell, [&]<class Cell>() { Backward<S, Cell>(backend, args).run(); });
  });
}

}  // namespace tandem::cuda
