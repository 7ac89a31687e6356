// Recurrent layers, backward. The sequential part is one product per step of the gate gradients with the
// recurrent weights. Gradients of weights and inputs are products over all steps afterwards.
#include <optional>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/cpu/kernels/rnn.h"
#include "core/kernels/rnn_formulas.h"
#include "core/rnn_gradients.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

template <class S, class Cell>
class StepsBack {
  using T = ComputeType<S>;
  using Products = typename RowProductsOf<S>::type;
  using Storage = typename Products::Storage;
  using State = std::conditional_t<Cell::kCellState, T, S>;

 public:
  explicit StepsBack(const RnnBackward& args)
      : args_(args),
        n_(args.options, args.in),
        steps_(args.options, n_.steps),
        team_(n_.team()),
        hidden_(args.in.weight_hh.data<S>(), n_.gates, n_.outputs, 1, Columns::columns, team_),
        gates_(hidden_, n_.rows),
        carry_(workspace({n_.rows, n_.outputs}, dtype_of<T>())) {
    if (args.in.weight_hr.defined()) {
      projection_.emplace(args.in.weight_hr.data<S>(), n_.outputs, n_.units, 1, Columns::columns, team_);
      dh_.emplace(*projection_, n_.rows);
    }
    start(args.dh_n, carry_);
    if constexpr (Cell::kCellState) {
      dc_ = workspace({n_.rows, n_.units}, dtype_of<T>());
      start(args.dc_n, dc_);
    }
    if (args.in.h0.defined() && wanted(kWeightHh))
      first_ = Tensor::zeros({n_.rows, n_.gates}, {.dtype = dtype_of<S>(), .kind = MemoryKind::workspace});
  }

  void run() {
    const Index segment = args_.options.recompute ? kRnnSegment : n_.steps;
    for (Index first = (n_.steps - 1) / segment * segment; first >= 0; first -= segment)
      range(first, std::min(first + segment, n_.steps));
    finish();
  }

 private:
  // Data of a range of steps for the products over all steps, in time order.
  struct Kept {
    Index first_time = 0;
    Tensor gates, states;  // from forward
    Tensor c;              // lstm: before the first step; undefined: zeros
    Tensor da;             // [steps,N,G·H], input part
    Tensor dq;             // gru: recurrent part; otherwise equal to da
    Tensor dh, u;          // with projection: [steps,N,P] and [steps,N,H]
  };

  bool wanted(RnnInput input) const { return args_.gradients[input].tensor.defined(); }

  static void start(const Tensor& from, const Tensor& to) {
    if (from.defined()) {
      backend().cast(from, to, false);
    } else {
      backend().fill(to, 0.0);
    }
  }

  void range(Index first, Index last) {
    const Index count = last - first;
    Kept kept = forward_again(first, last);
    kept.da = workspace({count, n_.rows, n_.gates}, dtype_of<S>());
    kept.dq = Cell::kSeparateQ ? workspace(kept.da.shape(), dtype_of<S>()) : kept.da;
    if (projection_) {
      kept.dh = workspace({count, n_.rows, n_.outputs}, dtype_of<S>());
      kept.u = workspace({count, n_.rows, n_.units}, dtype_of<S>());
    }
    steps(first, last, kept);
    write_gradients(backend(), args_, {first, last, kept.da, kept.dq, first_, kept.dh, kept.u});
  }

  // Gates and states of a range, saved by forward or recomputed.
  Kept forward_again(Index first, Index last) {
    const Index count = last - first;
    Kept kept{.first_time = steps_.reverse() ? n_.steps - last : first,
              .gates = args_.reserve.gates,
              .states = args_.reserve.states,
              .c = args_.in.c0};
    if (!args_.options.recompute || !Cell::kKeepsGates) return kept;
    RnnRange range{.first = first, .last = last, .h = workspace({n_.rows, n_.outputs}, dtype_of<S>())};
    for (Index row = 0; row < n_.rows; ++row) h_before(first, row, range.h.data<S>() + row * n_.outputs);
    if constexpr (Cell::kCellState) {
      kept.c = args_.reserve.states.rows(first / kRnnSegment, 1).viewed({n_.rows, n_.units});
      range.c = workspace({n_.rows, n_.units}, dtype_of<T>());
      backend().copy_bytes(kept.c, range.c);
    }
    kept.gates = range.gates = workspace({count, n_.rows, n_.gates}, dtype_of<S>());
    kept.states = range.states = workspace({count, n_.rows, n_.units}, dtype_of<State>());
    rnn_steps(args_.options, args_.in, range);
    return kept;
  }

  // Whether the row's first step is this one or a later one.
  bool begins(Index time, Index row) const {
    return steps_.reverse() ? time >= steps_.length(row) - 1 : time == 0;
  }

  // The h that a step's product read; h0 also for a reversed row before its start. Undefined for finished
  // rows.
  void h_before(Index step, Index row, S* to) const {
    const Tensor& h0 = args_.in.h0;
    if (step == 0 || (steps_.reverse() && !steps_.active(steps_.time(step - 1), row))) {
      if (h0.defined()) {
        std::copy_n(h0.data<S>() + row * n_.outputs, n_.outputs, to);
      } else {
        std::fill_n(to, n_.outputs, S{});
      }
    } else {
      std::copy_n(args_.y.data<S>() + (steps_.time(step - 1) * n_.rows + row) * n_.outputs, n_.outputs, to);
    }
  }

  void steps(Index first, Index last, const Kept& kept) {
    const Index sums = hidden_.padded_rows(n_.rows) *
                       std::max(hidden_.out_step(), projection_ ? projection_->out_step() : 0);
    const Tensor memory = workspace({team_, sums}, dtype_of<T>());
    const bool pending = pending_;
    for (Index step = last - 1; step >= first; --step) {
      in_parts(hidden_, team_, n_.rows, [&](Index part) {
        T* mine = memory.data<T>() + part * sums;
        const Range panels = part_of(hidden_.panels(), part, team_);
        for (Index i = 0; i < panels.count(); ++i) {
          const Index panel = panel_in_turn(panels, i, step);
          if (!projection_) fetch_cells(step, hidden_.columns(panel), kept);
          if (pending || step < last - 1) {
            hidden_.multiply(panel, n_.rows, gates_.all(step + 1), mine);
          } else {
            std::fill_n(mine, n_.rows * hidden_.out_step(), T(0));
          }
          for (Index row = 0; row < n_.rows; ++row)
            hidden(step, hidden_.columns(panel), row, mine + row * hidden_.out_step(), kept);
        }
      });
      if (!projection_) continue;
      in_parts(*projection_, team_, n_.rows, [&](Index part) {
        T* mine = memory.data<T>() + part * sums;
        const Range units = part_of(projection_->panels(), part, team_);
        for (Index panel = units.first; panel < units.last; ++panel) {
          projection_->multiply(panel, n_.rows, dh_->all(0), mine);
          for (Index row = 0; row < n_.rows; ++row)
            cells(step, projection_->columns(panel), row, mine + row * projection_->out_step(), kept);
        }
      });
    }
    pending_ = true;
  }

  Index kept_at(Index time, Index row, const Kept& kept) const {
    return (time - kept.first_time) * n_.rows + row;
  }

  // Prefetches the operands of the cells of some units.
  void fetch_cells(Index step, Range units, const Kept& kept) const {
    const Index time = steps_.time(step);
    for (Index row = 0; row < n_.rows; ++row) {
      const Index at = kept_at(time, row, kept), first = at * n_.gates + units.first;
      for (int g = 0; g < Cell::kGates; ++g) {
        if (Cell::kKeepsGates) fetch(kept.gates.template data<S>() + first + g * n_.units, units.count());
        fetch(kept.da.template data<S>() + first + g * n_.units, units.count());
      }
      if (Cell::kCellState)
        fetch(kept.states.template data<T>() + at * n_.units + units.first, units.count());
      if (args_.dy.defined())
        fetch(args_.dy.data<S>() + (time * n_.rows + row) * n_.outputs + units.first, units.count());
    }
  }

  // Gradient of outputs h of a row: the product (`sums`), the gradient of this step, and `carry_`.
  void hidden(Index step, Range outputs, Index row, T* sums, const Kept& kept) {
    const Index time = steps_.time(step), count = outputs.count();
    T* carry = carry_.data<T>() + row * n_.outputs + outputs.first;
    for (Index i = 0; i < count; ++i) sums[i] += carry[i];
    const bool active = steps_.active(time, row);
    if (active) {
      std::fill_n(carry, count, T(0));
      if (args_.dy.defined()) add_dy(time, row, outputs, sums);
    } else {
      std::copy_n(sums, count, carry);
    }
    if (!projection_) return cells(step, outputs, row, sums, kept);
    S* dh = kept.dh.template data<S>() + kept_at(time, row, kept) * n_.outputs + outputs.first;
    if (!active) std::fill_n(sums, count, T(0));
    Storage* operand = dh_->row(0, row) + outputs.first;
    for (Index i = 0; i < count; i += kLanes)
      store_rounded(sums + i, dh + i, operand + i, std::min<Index>(kLanes, count - i));
  }

  void add_dy(Index time, Index row, Range outputs, T* to) const {
    T dy[kLanes];
    const S* from = args_.dy.data<S>() + (time * n_.rows + row) * n_.outputs;
    for (Index p = outputs.first; p < outputs.last; p += kLanes) {
      const Index count = std::min<Index>(kLanes, outputs.last - p);
      load_units(from + p, dy, count);
      T sum[kLanes];
      load_units(to + p - outputs.first, sum, count);
      for (int i = 0; i < kLanes; ++i) sum[i] += dy[i];
      store_units(sum, to + p - outputs.first, count);
    }
  }

  // Gate gradients of some units of a row; `dy` is the gradient of the cell's output.
  void cells(Index step, Range units, Index row, const T* dy, const Kept& kept) {
    const Index time = steps_.time(step), at = kept_at(time, row, kept);
    if (!steps_.active(time, row)) {
      for (int g = 0; g < Cell::kGates; ++g) {
        const Index first = g * n_.units + units.first;
        std::fill_n(gates_.row(step, row) + first, units.count(), Storage{});
        std::fill_n(kept.da.template data<S>() + at * n_.gates + first, units.count(), S{});
        if (Cell::kSeparateQ)
          std::fill_n(kept.dq.template data<S>() + at * n_.gates + first, units.count(), S{});
      }
      if (projection_)
        std::fill_n(kept.u.template data<S>() + at * n_.units + units.first, units.count(), S{});
      return;
    }
    for (Index u = units.first; u < units.last; u += kLanes)
      cell(step, time, at, row, u, std::min<Index>(kLanes, units.last - u), dy + (u - units.first), kept);
  }

  // Computes up to sixteen units.
  void cell(Index step, Index time, Index at, Index row, Index first, Index count, const T* dy,
            const Kept& kept) {
    T gate[4][kLanes], state[kLanes], before[kLanes], dstate[kLanes], d[kLanes], da[4][kLanes], dq[kLanes],
        dh[kLanes];
    for (int g = Cell::kKeepsGates ? Cell::kGates : 0; g < 4; ++g) std::fill_n(gate[g], kLanes, T(0));
    if constexpr (Cell::kKeepsGates) {
      for (int g = 0; g < Cell::kGates; ++g)
        load_units(kept.gates.template data<S>() + at * n_.gates + g * n_.units + first, gate[g], count);
      load_units(kept.states.template data<State>() + at * n_.units + first, state, count);
    } else {
      load_units(args_.y.data<S>() + (time * n_.rows + row) * n_.outputs + first, state, count);
    }
    state_before(step, time, row, first, count, kept, before);
    T* dc = Cell::kCellState ? dc_.data<T>() + row * n_.units + first : nullptr;
    if (dc) {
      load_units(dc, dstate, count);
    } else {
      std::fill_n(dstate, kLanes, T(0));
    }
    load_units(dy, d, count);
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) {
      const rnn::Kept<T> k{{gate[0][i], gate[1][i], gate[2][i], gate[3][i]}, state[i]};
      const rnn::Gradients<T> g = Cell::backward(k, before[i], d[i], dstate[i]);
      da[0][i] = g.a[0];
      da[1][i] = g.a[1];
      da[2][i] = g.a[2];
      da[3][i] = g.a[3];
      dq[i] = g.q;
      dh[i] = g.h;
      dstate[i] = g.state;
    }
    if (dc) store_units(dstate, dc, count);
    if constexpr (Cell::kSeparateQ) std::copy_n(dh, count, carry_.data<T>() + row * n_.outputs + first);
    store_gradients(step, time, at, row, first, count, da, dq, kept);
    if constexpr (Cell::kCellState) {
      if (!projection_) return;
      for (int i = 0; i < kLanes; ++i) d[i] = Cell::output(gate[3][i], state[i]);
      store_units(d, kept.u.template data<S>() + at * n_.units + first, count);
    }
  }

  // c or h of some units before a step, or zeros.
  void state_before(Index step, Index time, Index row, Index first, Index count, const Kept& kept,
                    T* to) const {
    if constexpr (Cell::kCellState) {
      if (step > 0 && in_range(steps_.time(step - 1), kept)) {
        load_units(
            kept.states.template data<T>() + kept_at(steps_.time(step - 1), row, kept) * n_.units + first, to,
            count);
        return;
      }
      if (kept.c.defined()) return load_units(kept.c.template data<T>() + row * n_.units + first, to, count);
    } else if constexpr (Cell::kSeparateQ) {
      if (!begins(time, row))
        return load_units(args_.y.data<S>() + (steps_.time(step - 1) * n_.rows + row) * n_.outputs + first,
                          to, count);
      if (args_.in.h0.defined())
        return load_units(args_.in.h0.data<S>() + row * n_.outputs + first, to, count);
    }
    std::fill_n(to, kLanes, T(0));
  }
  bool in_range(Index time, const Kept& kept) const {
    return time >= kept.first_time && time < kept.first_time + kept.da.size(0);
  }

  // Stores da and dq for the products over all steps, the next step, and the product with h0.
  void store_gradients(Index step, Index time, Index at, Index row, Index first, Index count,
                       const T (&da)[4][kLanes], const T* dq, const Kept& kept) {
    const bool begins = first_.defined() && this->begins(time, row);
    for (int g = 0; g < Cell::kGates; ++g) {
      const Index column = g * n_.units + first;
      if constexpr (Cell::kSeparateQ)
        store_units(da[g], kept.da.template data<S>() + at * n_.gates + column, count);
      S* recurrent = kept.dq.template data<S>() + at * n_.gates + column;
      store_rounded(Cell::kSeparateQ && g == 2 ? dq : da[g], recurrent, gates_.row(step, row) + column,
                    count);
      if (begins) std::copy_n(recurrent, count, first_.data<S>() + row * n_.gates + column);
    }
  }

  // Gradients of the initial states.
  void finish() {
    if (wanted(kH0)) {
      const Tensor sums = workspace({hidden_.padded_rows(n_.rows) * hidden_.out_step()}, dtype_of<T>());
      typename Products::Session session;
      hidden_.begin(session, n_.rows);
      for (Index panel = 0; panel < hidden_.panels(); ++panel) {
        hidden_.multiply(panel, n_.rows, gates_.all(0), sums.data<T>());
        const Range outputs = hidden_.columns(panel);
        for (Index row = 0; row < n_.rows; ++row) {
          T* carry = carry_.data<T>() + row * n_.outputs;
          const T* from = sums.data<T>() + row * hidden_.out_step();
          for (Index p = outputs.first; p < outputs.last; ++p) carry[p] += from[p - outputs.first];
        }
      }
      backend().cast(carry_, args_.gradients[kH0].tensor, args_.gradients[kH0].accumulate);
    }
    if (wanted(kC0)) backend().cast(dc_, args_.gradients[kC0].tensor, args_.gradients[kC0].accumulate);
  }

  const RnnBackward& args_;
  const RnnSizes n_;
  const RnnSteps steps_;
  const int team_;
  const Products hidden_;
  RnnOperand<Products> gates_;  // dq of the step, [N,G·H]
  std::optional<Products> projection_;
  std::optional<RnnOperand<Products>> dh_;
  Tensor carry_;          // gradient of h that bypasses the product: [N,P]
  Tensor dc_;             // gradient of c: [N,H]
  Tensor first_;          // dq of the first step of each row
  bool pending_ = false;  // whether gates_ holds the dq of a later step
};

}  // namespace

void CpuRnn::rnn_backward(const RnnBackward& args) {
  if (args.in.x.size(1) == 0) {
    for (const GradOutput& to : args.gradients) {
      if (to.tensor.defined() && !to.accumulate) backend().fill(to.tensor, 0.0);
    }
    return;
  }
  visit_floating(args.in.x.dtype(), [&]<class S>(TypeTag<S>) {
    rnn::visit_cell(args.options.cell, [&]<class Cell>() { StepsBack<S, Cell>(args).run(); });
  });
}

}  // namespace tandem::cpu::TANDEM_LEVEL
