// Recurrent layers, forward. One product computes the inputs of all steps; each step multiplies the hidden
// state by the packed recurrent weights, and the cell reads the sums from L1. A thread computes the same
// units in every step, so its part of the weights stays in its caches.
#include <optional>

#include "core/cpu/cpu_features.h"
#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/rnn.h"
#include "core/kernels/matmul.h"
#include "core/kernels/rnn_formulas.h"

namespace tandem::cpu::TANDEM_LEVEL {

// A barrier costs about as much as this many multiplications.
constexpr Index kParallelStep = 64 * 1024;

int RnnSizes::team() const { return rows * gates * outputs < kParallelStep ? 1 : threads(); }

namespace {

// b_ih + b_hh, except for gate n of gru, whose recurrent bias stays separate; undefined if both are.
template <class T>
Tensor input_bias(const RnnInputs& in, RnnCell cell, Index units) {
  if (!in.bias_hh.defined()) return in.bias_ih;
  Tensor sum = workspace(in.bias_hh.shape(), dtype_of<T>());
  const T* hidden = in.bias_hh.data<T>();
  const T* input = in.bias_ih.defined() ? in.bias_ih.data<T>() : nullptr;
  const Index shared = cell == RnnCell::gru ? 2 * units : sum.numel();
  T* to = sum.data<T>();
  for (Index i = 0; i < sum.numel(); ++i) to[i] = (input ? input[i] : T(0)) + (i < shared ? hidden[i] : T(0));
  return sum;
}

template <class S, class Cell>
class Steps {
  using T = ComputeType<S>;
  using Products = typename RowProductsOf<S>::type;
  using Storage = typename Products::Storage;

 public:
  Steps(const RnnOptions& options, const RnnInputs& in, const RnnRange& range)
      : n_(options, in),
        steps_(options, n_.steps),
        range_(range),
        team_(n_.team()),
        hidden_(in.weight_hh.data<S>(), n_.outputs, n_.gates, Cell::kGates, Columns::rows, team_),
        h_(hidden_, n_.rows),
        first_time_(options.reverse ? n_.steps - range.last : range.first) {
    if (in.weight_hr.defined()) {
      projection_.emplace(in.weight_hr.data<S>(), n_.units, n_.outputs, 1, Columns::rows, team_);
      u_.emplace(*projection_, n_.rows);
    }
    const Index count = range.last - range.first;
    inputs_ = workspace({count, n_.rows, n_.gates}, dtype_of<T>());
    const Index rows = count * n_.rows;
    backend().matmul().matmul(in.x.rows(first_time_, count).viewed({rows, n_.inputs}), in.weight_ih,
                              input_bias<T>(in, options.cell, n_.units), inputs_.viewed({rows, n_.gates}),
                              {.transpose_b = true});
    if (Cell::kSeparateQ && in.bias_hh.defined()) q_bias_ = in.bias_hh.data<T>() + 2 * n_.units;
    for (Index row = 0; row < n_.rows; ++row)
      load_block(range.h.data<S>() + row * n_.outputs, h_.row(range.first, row), n_.outputs);
  }

  void run() {
    const Index sums = hidden_.padded_rows(n_.rows) *
                       std::max(hidden_.out_step(), projection_ ? projection_->out_step() : 0);
    const Tensor memory = workspace({team_, sums}, dtype_of<T>());
    for (Index step = range_.first; step < range_.last; ++step) {
      in_parts(hidden_, team_, n_.rows, [&](Index part) {
        T* mine = memory.data<T>() + part * sums;
        const Range panels = part_of(hidden_.panels(), part, team_);
        for (Index i = 0; i < panels.count(); ++i) {
          const Index panel = panel_in_turn(panels, i, step);
          fetch_cells(step, hidden_.columns(panel));
          hidden_.multiply(panel, n_.rows, h_.all(step), mine);
          for (Index row = 0; row < n_.rows; ++row)
            cells(step, hidden_.columns(panel), row, mine + row * hidden_.out_step());
        }
      });
      if (!projection_) continue;
      in_parts(*projection_, team_, n_.rows, [&](Index part) {
        T* mine = memory.data<T>() + part * sums;
        const Range outputs = part_of(projection_->panels(), part, team_);
        for (Index panel = outputs.first; panel < outputs.last; ++panel) {
          projection_->multiply(panel, n_.rows, u_->all(0), mine);
          for (Index row = 0; row < n_.rows; ++row)
            project(step, projection_->columns(panel), row, mine + row * projection_->out_step());
        }
      });
    }
    for (Index row = 0; row < n_.rows; ++row)
      store_state(h_.row(range_.last, row), range_.h.data<S>() + row * n_.outputs);
  }

 private:
  // Row indices at a step: in y, and in the data kept for the range.
  struct At {
    Index time, kept;
  };
  At at(Index step, Index row) const {
    const Index time = steps_.time(step);
    return {time, (time - first_time_) * n_.rows + row};
  }

  void store_state(const Storage* from, S* to) const {
    T values[kBlock];
    for (Index i = 0; i < n_.outputs; i += kBlock) {
      const Index count = std::min(kBlock, n_.outputs - i);
      load_block(from + i, values, count);
      store_block(values, to + i, count);
    }
  }

  // Stores h of some outputs of a row to y and to the operand of the next step.
  void store_h(Index step, Index row, Index first, Index count, const T* h) {
    S stored[kLanes];
    S* y = range_.y.defined() ? range_.y.data<S>() + (steps_.time(step) * n_.rows + row) * n_.outputs + first
                              : stored;
    store_rounded(h, y, h_.row(step + 1, row) + first, count);
  }
  void keep_h(Index step, Index row, Range outputs) {
    if (range_.y.defined())
      std::fill_n(range_.y.data<S>() + (steps_.time(step) * n_.rows + row) * n_.outputs + outputs.first,
                  outputs.count(), S{});
    std::copy_n(h_.row(step, row) + outputs.first, outputs.count(), h_.row(step + 1, row) + outputs.first);
  }

  // Prefetches the operands of the cells of some units.
  void fetch_cells(Index step, Range units) const {
    for (Index row = 0; row < n_.rows; ++row) {
      const Index kept = at(step, row).kept, first = kept * n_.gates + units.first;
      for (int g = 0; g < Cell::kGates; ++g) {
        fetch(inputs_.data<T>() + first + g * n_.units, units.count());
        if (range_.gates.defined()) fetch(range_.gates.data<S>() + first + g * n_.units, units.count());
      }
    }
  }

  // Computes the units of a row; `sums` holds the products gate by gate.
  void cells(Index step, Range units, Index row, const T* sums) {
    const At at = this->at(step, row);
    T* c = Cell::kCellState ? range_.c.data<T>() + row * n_.units : nullptr;
    if (Cell::kCellState && range_.segments.defined() && step % kRnnSegment == 0)
      std::copy_n(c + units.first, units.count(),
                  range_.segments.data<T>() + (step / kRnnSegment * n_.rows + row) * n_.units + units.first);
    if (!steps_.active(at.time, row)) {
      if (Cell::kCellState && range_.states.defined())
        std::copy_n(c + units.first, units.count(),
                    range_.states.data<T>() + at.kept * n_.units + units.first);
      if (projection_) {
        std::fill_n(u_->row(0, row) + units.first, units.count(), Storage{});
      } else {
        keep_h(step, row, units);
      }
      return;
    }
    for (Index u = units.first; u < units.last; u += kLanes)
      cell(step, at, row, u, std::min<Index>(kLanes, units.last - u), sums + (u - units.first), c);
  }

  // Computes up to sixteen units.
  void cell(Index step, const At& at, Index row, Index first, Index count, const T* sums, T* c) {
    T a[4][kLanes], q[4][kLanes], state[kLanes], y[kLanes], gate[4][kLanes];
    const T* inputs = inputs_.data<T>() + at.kept * n_.gates + first;
    for (int g = 0; g < Cell::kGates; ++g) {
      load_units(inputs + g * n_.units, a[g], count);
      load_units(sums + g * hidden_.gate_step(), q[g], count);
    }
    for (int g = Cell::kGates; g < 4; ++g) {
      std::fill_n(a[g], kLanes, T(0));
      std::fill_n(q[g], kLanes, T(0));
    }
    if (Cell::kSeparateQ && q_bias_) {
      for (Index i = 0; i < count; ++i) q[2][i] += q_bias_[first + i];
    }
    if constexpr (Cell::kCellState) {
      load_units(c + first, state, count);
    } else {
      load_units(h_.row(step, row) + first, state, count);
    }
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) {
      const rnn::Gates<T> ai{{a[0][i], a[1][i], a[2][i], a[3][i]}}, qi{{q[0][i], q[1][i], q[2][i], q[3][i]}};
      const rnn::Step<T> next = Cell::forward(ai, qi, state[i]);
      gate[0][i] = next.kept.gate[0];
      gate[1][i] = next.kept.gate[1];
      gate[2][i] = next.kept.gate[2];
      gate[3][i] = next.kept.gate[3];
      state[i] = next.kept.state;
      y[i] = next.y;
    }
    if constexpr (Cell::kCellState) store_units(state, c + first, count);
    if (range_.gates.defined()) {
      for (int g = 0; g < Cell::kGates; ++g)
        store_units(gate[g], range_.gates.data<S>() + at.kept * n_.gates + g * n_.units + first, count);
      using State = std::conditional_t<Cell::kCellState, T, S>;
      store_units(state, range_.states.data<State>() + at.kept * n_.units + first, count);
    }
    if (projection_) {
      S stored[kLanes];
      store_rounded(y, stored, u_->row(0, row) + first, count);
    } else {
      store_h(step, row, first, count, y);
    }
  }

  void project(Index step, Range outputs, Index row, const T* sums) {
    if (!steps_.active(steps_.time(step), row)) return keep_h(step, row, outputs);
    for (Index p = outputs.first; p < outputs.last; p += kLanes)
      store_h(step, row, p, std::min<Index>(kLanes, outputs.last - p), sums + (p - outputs.first));
  }

  const RnnSizes n_;
  const RnnSteps steps_;
  const RnnRange& range_;
  const int team_;
  const Products hidden_;
  RnnOperand<Products> h_;
  std::optional<Products> projection_;
  std::optional<RnnOperand<Products>> u_;
  const Index first_time_;
  Tensor inputs_;  // contribution of x and the biases to the gates, [steps of the range, N, G·H]
  const T* q_bias_ = nullptr;
};

// Copies an initial state, or zeros, to new memory.
void start_state(const Tensor& from, const Tensor& to) {
  if (from.defined()) {
    backend().copy_bytes(from, to);
  } else {
    backend().fill(to, 0.0);
  }
}

}  // namespace

void rnn_steps(const RnnOptions& options, const RnnInputs& in, const RnnRange& range) {
  visit_floating(in.x.dtype(), [&]<class S>(TypeTag<S>) {
    rnn::visit_cell(options.cell, [&]<class Cell>() { Steps<S, Cell>(options, in, range).run(); });
  });
}

RnnReserve CpuRnn::rnn(const RnnForward& args) {
  const RnnReserve reserve = host_reserve(args);
  start_state(args.in.h0, args.h_n);
  if (args.c_n.defined()) start_state(args.in.c0, args.c_n);
  RnnRange range{.first = 0, .last = args.in.x.size(0), .h = args.h_n, .c = args.c_n, .y = args.y};
  if (args.options.recompute) {
    range.segments = reserve.states;
  } else {
    range.gates = reserve.gates;
    range.states = reserve.states;
  }
  if (args.y.numel() > 0) rnn_steps(args.options, args.in, range);
  return reserve;
}

RnnKernels& CpuBackend::rnn() { return instance<CpuRnn>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
