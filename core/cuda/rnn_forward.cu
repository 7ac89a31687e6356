// Recurrent layers, forward. One product computes the inputs of all steps; each step then runs a product of
// the hidden state with the recurrent weights, and a kernel for the cells of all rows. Both contributions to
// the gates stay in the arithmetic type until the cell adds them: gru needs them separately, and adding them
// in the product would move as many bytes. Operands and results of the step products have padded rows
// (core/cuda/padding.h), with zeros in the padding.
#include <algorithm>

#include "core/cuda/rnn.h"
#include "core/kernels/matmul.h"
#include "core/kernels/rnn_formulas.h"

namespace tandem::cuda {

namespace {

// One step of all rows; pointers may be null.
template <class S>
struct CellForward {
  using T = ComputeType<S>;
  const T *inputs, *sums;      // [N,G·H]: products of x and of h; sums has rows of sums_row
  const T *bias_ih, *bias_hh;  // [G·H]
  S* h;                        // [N,H] in rows of h_row, read and written; null with a projection
  T* c;                        // [N,H], read and written
  S *y, *gates;                // [N,H], [N,G·H], written
  void* states;                // [N,H] of T (lstm) or S, written
  S* u;                        // [N,H] in rows of h_row: input of the projection
  Index rows, units, sums_row, h_row, time;
  RowLengths lengths;
};

// An inactive row keeps its states and outputs zeros.
template <class S, class Cell, int kWidth>
__device__ __forceinline__ void pass_by(const CellForward<S>& step, Index at, Index at_h) {
  if (step.y != nullptr) write_zeros<kWidth>(step.y + at);
  if (step.u != nullptr) write_zeros<kWidth>(step.u + at_h);
  if constexpr (Cell::kCellState) {
    if (step.states == nullptr) return;
    ComputeType<S> c[kWidth];
    read<kWidth>(step.c + at, c);
    write<kWidth>(static_cast<ComputeType<S>*>(step.states) + at, c);
  }
}

template <class S, class Cell, int kWidth>
__global__ void __launch_bounds__(kThreads) rnn_cell_kernel(CellForward<S> step) {
  using T = ComputeType<S>;
  constexpr int kGates = Cell::kGates;
  await_earlier_work();
  Units units;
  if (!find_units<kWidth>(step.rows, step.units, units)) return;
  const Index at = units.row * step.units + units.first, at_h = units.row * step.h_row + units.first;
  if (!step.lengths.active(step.time, units.row)) return pass_by<S, Cell, kWidth>(step, at, at_h);
  rnn::Gates<T> a[kWidth], q[kWidth];
#pragma unroll
  for (int g = 0; g < kGates; ++g) {
    const Index column = g * step.units + units.first, gate = units.row * kGates * step.units + column;
    T input[kWidth], sum[kWidth], bias[kWidth], recurrent_bias[kWidth];
    read<kWidth>(step.inputs + gate, input);
    read<kWidth>(step.sums + units.row * step.sums_row + column, sum);
    read_if<kWidth>(step.bias_ih, column, bias);
    read_if<kWidth>(step.bias_hh, column, recurrent_bias);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      a[i].value[g] = input[i] + bias[i];
      q[i].value[g] = sum[i] + recurrent_bias[i];
    }
  }
  T state[kWidth] = {}, h[kWidth], gates[kGates][kWidth];
  if constexpr (Cell::kCellState) read<kWidth>(step.c + at, state);
  if constexpr (Cell::kSeparateQ) read<kWidth>(step.h + at_h, state);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const rnn::Step<T> after = Cell::forward(a[i], q[i], state[i]);
    h[i] = after.y;
    state[i] = after.kept.state;
#pragma unroll
    for (int g = 0; g < kGates; ++g) gates[g][i] = after.kept.gate[g];
  }
  if constexpr (Cell::kCellState) write<kWidth>(step.c + at, state);
  if (step.h != nullptr) write<kWidth>(step.h + at_h, h);
  if (step.y != nullptr) write<kWidth>(step.y + at, h);
  if (step.u != nullptr) write<kWidth>(step.u + at_h, h);
  if constexpr (Cell::kKeepsGates) {
    if (step.gates == nullptr) return;
#pragma unroll
    for (int g = 0; g < kGates; ++g)
      write<kWidth>(step.gates + (units.row * kGates + g) * step.units + units.first, gates[g]);
    write<kWidth>(static_cast<StateOf<S, Cell>*>(step.states) + at, state);
  }
}

// Computes h and y of active rows from the sums. Rows of h and of its sums are `row` elements apart.
template <class S, int kWidth>
__global__ void __launch_bounds__(kThreads)
    rnn_project_kernel(const ComputeType<S>* sums, S* h, S* y, Index rows, Index outputs, Index row,
                       Index time, RowLengths lengths) {
  await_earlier_work();
  Units units;
  if (!find_units<kWidth>(rows, outputs, units)) return;
  const Index at = units.row * outputs + units.first, at_h = units.row * row + units.first;
  if (!lengths.active(time, units.row)) {
    if (y != nullptr) write_zeros<kWidth>(y + at);
    return;
  }
  ComputeType<S> values[kWidth];
  read<kWidth>(sums + at_h, values);
  write<kWidth>(h + at_h, values);
  if (y != nullptr) write<kWidth>(y + at, values);
}

template <class S, class Cell>
class Forward {
  using T = ComputeType<S>;

 public:
  Forward(CudaBackend& backend, const RnnOptions& options, const RnnInputs& in, const RnnStepWeights& weights,
          const RnnSteps& steps, const RnnRange& range)
      : backend_(backend),
        n_(options, in),
        in_(in),
        weights_(weights),
        steps_(steps),
        range_(range),
        first_time_(steps.first_time(range.first, range.last)),
        sums_(backend.workspace({n_.rows, n_.gates_row}, dtype_of<T>())) {
    const Index count = range.last - range.first, rows = count * n_.rows;
    inputs_ = backend.workspace({count, n_.rows, n_.gates}, dtype_of<T>());
    backend.matmul().matmul(in.x.rows(first_time_, count).viewed({rows, n_.inputs}), in.weight_ih, {},
                            inputs_.viewed({rows, n_.gates}), {.transpose_b = true});
    if (!in.weight_hr.defined()) return;
    u_ = padded_workspace(backend, n_.rows, n_.units, dtype_of<S>());
    projected_ = backend.workspace({n_.rows, n_.outputs_row}, dtype_of<T>());
  }

  void run() {
    for (Index step = range_.first; step < range_.last; ++step) {
      if (range_.segments.defined() && step % kRnnSegment == 0)
        backend_.copy_bytes(range_.c, step_of(range_.segments, step / kRnnSegment));
      backend_.matmul().matmul(range_.h, weights_.hh, {}, sums_, {.transpose_b = true});
      cells(steps_.time(step));
      if (projected_.defined()) project(steps_.time(step));
    }
  }

 private:
  void cells(Index time) {
    const Index at = time - first_time_;
    const Tensor inputs = step_of(inputs_, at), gates = step_of(range_.gates, at),
                 states = step_of(range_.states, at);
    const bool ends = !u_.defined();
    const Tensor y = ends ? step_of(range_.y, time) : Tensor(), h = ends ? range_.h : Tensor();
    const bool packs =
        takes_packs(n_.units, {inputs, sums_, in_.bias_ih, in_.bias_hh, h, range_.c, y, gates, states, u_});
    launch_early(name_of_cell(), packs ? rnn_cell_kernel<S, Cell, kRnnWidth> : rnn_cell_kernel<S, Cell, 1>,
                 blocks_of(n_.rows, n_.units, packs), kThreads, backend_.stream(),
                 CellForward<S>{.inputs = inputs.data<T>(),
                                .sums = sums_.data<T>(),
                                .bias_ih = data_or_null<T>(in_.bias_ih),
                                .bias_hh = data_or_null<T>(in_.bias_hh),
                                .h = data_or_null<S>(h),
                                .c = data_or_null<T>(range_.c),
                                .y = data_or_null<S>(y),
                                .gates = data_or_null<S>(gates),
                                .states = states.defined() ? states.raw() : nullptr,
                                .u = data_or_null<S>(u_),
                                .rows = n_.rows,
                                .units = n_.units,
                                .sums_row = n_.gates_row,
                                .h_row = n_.units_row,
                                .time = time,
                                .lengths = steps_.lengths()});
  }

  void project(Index time) {
    backend_.matmul().matmul(u_, weights_.hr, {}, projected_, {.transpose_b = true});
    const Tensor y = step_of(range_.y, time);
    const bool packs = takes_packs(n_.outputs, {projected_, range_.h, y});
    launch_early(name_of_cell(), packs ? rnn_project_kernel<S, kRnnWidth> : rnn_project_kernel<S, 1>,
                 blocks_of(n_.rows, n_.outputs, packs), kThreads, backend_.stream(), projected_.data<T>(),
                 range_.h.data<S>(), data_or_null<S>(y), n_.rows, n_.outputs, n_.outputs_row, time,
                 steps_.lengths());
  }

  static constexpr const char* name_of_cell() {
    return Cell::kCellState ? "lstm" : Cell::kSeparateQ ? "gru" : "rnn";
  }

  CudaBackend& backend_;
  const RnnSizes n_;
  const RnnInputs& in_;
  const RnnStepWeights& weights_;
  const RnnSteps& steps_;
  const RnnRange& range_;
  const Index first_time_;
  Tensor inputs_, sums_;  // [steps of the range,N,G·H], padded [N,G·H]
  Tensor u_, projected_;  // with projection, padded: [N,H] of S and [N,P] of T
};

}  // namespace

void rnn_steps(CudaBackend& backend, const RnnOptions& options, const RnnInputs& in,
               const RnnStepWeights& weights, const RnnSteps& steps, const RnnRange& range) {
  visit_floating(in.x.dtype(), [&]<class S>(TypeTag<S>) {
    rnn::visit_cell(options.cell, [&]<class Cell>() {
      Forward<S, Cell>(backend, options, in, weights, steps, range).run();
    });
  });
}

RnnReserve CudaRnn::rnn(const RnnForward& args) {
  const RnnReserve reserve = host_reserve(args);
  const auto start = [&](const Tensor& from, const Tensor& to) {
    from.defined() ? backend.copy_bytes(from, to) : backend.fill(to, 0.0);
  };
  start(args.in.h0, args.h_n);
  if (args.c_n.defined()) start(args.in.c0, args.c_n);
  if (args.y.numel() == 0) return reserve;
  const RnnSizes n(args.options, args.in);
  const RnnSteps steps(backend, args.options, n);
  const RnnStepWeights weights(backend, n, args.in);
  const Tensor h = padded(backend, args.h_n, n.rows, n.outputs_row);
  // Input contributions to the gates are computed for one range of steps at a time.
  const Index segment = args.options.recompute ? kRnnSegment : n.steps;
  for (Index first = 0; first < n.steps; first += segment) {
    RnnRange range{
        .first = first, .last = std::min(first + segment, n.steps), .h = h, .c = args.c_n, .y = args.y};
    if (args.options.recompute) {
      range.segments = reserve.states;
    } else {
      range.gates = reserve.gates;
      range.states = reserve.states;
    }
    rnn_steps(backend, args.options, args.in, weights, steps, range);
  }
  if (n.outputs_row != n.outputs) copy_unpadded(backend, h, args.h_n);
  return reserve;
}

RnnKernels& CudaBackend::rnn() { return own<CudaRnn>(kernels_.rnn); }

}  // namespace tandem::cuda
