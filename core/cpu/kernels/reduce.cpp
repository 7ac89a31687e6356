// Reductions and cumulative sums.
//
// A reduction is split into tasks (one output, or a run of adjacent outputs, and one part of the reduced
// elements), and a task into contiguous pieces of at most kBlock elements. A piece is summed in the compute
// type with many partial sums; pieces, then parts, are combined in f64 in order. The split depends only on
// the shape, so results do not depend on the number of threads.
#include "core/kernels/reduce.h"

#include <cmath>
#include <limits>

#include "core/cpu/kernels/blocks.h"
#include "core/cpu/kernels/cpu_backend.h"
#include "core/error.h"
#include "core/kernels/math.h"
#include "core/kernels/merged_axes.h"

namespace tandem::cpu::TANDEM_LEVEL {

namespace {

template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

template <class T>
bool is_nan(T x) {
  return x != x;
}

// ---- kinds: how elements are mapped and combined

struct Plain {
  template <class T>
  static T map(T x, T) {
    return x;
  }
};
struct Squared {
  template <class T>
  static T map(T x, T) {
    return x * x;
  }
};
struct Magnitude {
  template <class T>
  static T map(T x, T) {
    return x < T(0) ? -x : x;
  }
};
struct ShiftedExp {
  template <class T>
  static T map(T x, T shift) {
    if constexpr (std::is_integral_v<T>)
      return x;  // unreachable: logsumexp of integers is rejected
    else
      return math::exp(x - shift);
  }
};

template <class Map>
struct Additive {
  static constexpr Index kRowsPerFlush = 64, kRun = 256, kLanes = 16;
  template <class T>
  static Wide<T> identity() {
    return 0;
  }
  template <class T>
  static Wide<T> block(const T* x, Index count, T shift) {
    // Short runs in separate lanes keep the error of partial sums below the rounding of the result. Explicit
    // lanes make the bits independent of the compiler's vectorisation.
    Wide<T> total = 0;
    for (Index start = 0; start < count; start += kRun) {
      const Index end = std::min(count, start + kRun);
      T lanes[kLanes] = {};
      Index i = start;
      for (; i + kLanes <= end; i += kLanes) {
#pragma omp simd
        for (Index lane = 0; lane < kLanes; ++lane) lanes[lane] += Map::map(x[i + lane], shift);
      }
      for (Index lane = 0; i < end; ++i, ++lane) lanes[lane] += Map::map(x[i], shift);
      for (Index width = kLanes / 2; width > 0; width /= 2) {
        for (Index lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
      }
      total += lanes[0];
    }
    return total;
  }
  template <class T>
  static void column(T* held, const T* x, Index count, const T* shift) {
    if constexpr (std::is_same_v<Map, ShiftedExp>) {
#pragma omp simd
      for (Index i = 0; i < count; ++i) held[i] += Map::map(x[i], shift[i]);
    } else {
#pragma omp simd
      for (Index i = 0; i < count; ++i) held[i] += Map::map(x[i], T(0));
    }
  }
  template <class W>
  static W combine(W a, W b) {
    return a + b;
  }
};

struct Product {
  static constexpr Index kRowsPerFlush = 1;  // products of floats overflow the range of floats
  template <class T>
  static Wide<T> identity() {
    return 1;
  }
  template <class T>
  static Wide<T> block(const T* x, Index count, T) {
    // In order: separate lanes could overflow or underflow where adjacent factors cancel.
    Wide<T> product = 1;
    for (Index i = 0; i < count; ++i) product *= static_cast<Wide<T>>(x[i]);
    return product;
  }
  template <class T>
  static void column(T* held, const T* x, Index count, const T*) {
#pragma omp simd
    for (Index i = 0; i < count; ++i) held[i] *= x[i];
  }
  template <class W>
  static W combine(W a, W b) {
    return a * b;
  }
};

// Maximum or minimum of the mapped values; NaN propagates.
template <class Map, bool kLargest>
struct Extremum {
  static constexpr Index kRowsPerFlush = std::numeric_limits<Index>::max();
  template <class T>
  static Wide<T> identity() {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<T>)
      return kLargest ? Limits::min() : Limits::max();
    else
      return kLargest ? -Limits::infinity() : Limits::infinity();
  }
  template <class T>
  static Wide<T> block(const T* x, Index count, T) {
    T best = static_cast<T>(identity<T>());
    int nan = 0;
    if constexpr (kLargest) {
#pragma omp simd reduction(max : best) reduction(| : nan)
      for (Index i = 0; i < count; ++i) {
        const T value = Map::map(x[i], T(0));
        best = value > best ? value : best;
        nan |= value != value;
      }
    } else {
#pragma omp simd reduction(min : best) reduction(| : nan)
      for (Index i = 0; i < count; ++i) {
        const T value = Map::map(x[i], T(0));
        best = value < best ? value : best;
        nan |= value != value;
      }
    }
    return nan ? std::numeric_limits<Wide<T>>::quiet_NaN() : static_cast<Wide<T>>(best);
  }
  template <class T>
  static void column(T* held, const T* x, Index count, const T*) {
#pragma omp simd
    for (Index i = 0; i < count; ++i) held[i] = combine(held[i], Map::map(x[i], T(0)));
  }
  template <class W>
  static W combine(W a, W b) {
    const bool better = kLargest ? b > a : b < a;
    return better || is_nan(b) ? b : a;
  }
};

// ---- the shape of a reduction

Index offset_in(const kernels::AxisSet& axes, Index index) {
  Index result = 0;
  for (int axis = axes.rank - 1; axis >= 0; --axis) {
    result += index % axes.extent[axis] * axes.stride[axis];
    index /= axes.extent[axis];
  }
  return result;
}

struct Plan : kernels::ReductionAxes {
  // Pieces of a task; see the head of the file.
  Index rows_per_piece = 1;  // rows of `inner` elements per piece
  Index pieces_per_row = 1;  // inner_reduced: more than 1 if a row is longer than a block
  Index columns = 1;         // !inner_reduced: outputs per task
  Index last_extent = 1;     // !inner_reduced: number of contiguous rows
  Index pieces = 0, parts = 1;
};

Plan make_plan(const Shape& shape, std::uint32_t axes) {
  Plan plan{{shape, axes}};
  if (plan.inner_reduced) {
    if (plan.inner >= kBlock) {
      plan.pieces_per_row = (plan.inner + kBlock - 1) / kBlock;
      plan.pieces = plan.reduced.count * plan.pieces_per_row;
    } else {
      plan.rows_per_piece = std::max<Index>(1, kBlock / std::max<Index>(1, plan.inner));
      plan.pieces = (plan.reduced.count + plan.rows_per_piece - 1) / plan.rows_per_piece;
    }
  } else {
    plan.columns = std::min(plan.inner, kBlock);
    plan.last_extent = 1;
    if (plan.inner <= kBlock / 2 && plan.reduced.rank > 0 &&
        plan.reduced.stride[plan.reduced.rank - 1] == plan.inner) {
      plan.last_extent = plan.reduced.extent[plan.reduced.rank - 1];
      plan.rows_per_piece = std::clamp<Index>(kBlock / plan.inner, 1, std::max<Index>(1, plan.last_extent));
    }
    const Index per_run =
        (plan.last_extent + plan.rows_per_piece - 1) / std::max<Index>(1, plan.rows_per_piece);
    plan.pieces = plan.last_extent == 0 ? 0 : plan.reduced.count / plan.last_extent * per_run;
  }
  const Index tasks = plan.kept.count * (plan.inner_reduced ? 1 : (plan.inner + kBlock - 1) / kBlock);
  if (tasks > 0 && tasks < 16) plan.parts = std::clamp<Index>(plan.pieces / 16, 1, 64 / tasks);
  return plan;
}

// ---- execution

template <class Body>
void over_tasks(Index tasks, Index elements, Body&& body) {
  if (tasks < 2 || elements < kParallelElements) {
    for (Index task = 0; task < tasks; ++task) body(task);
    return;
  }
  parallel_for(true, tasks, [&](Index task) { body(task); });
}

// partial[part][output]. `shift` is one value per output, or null.
template <class Kind, class T>
void reduce_rows(const Plan& plan, const Tensor& x, const T* shift, Wide<T>* partial) {
  over_tasks(plan.kept.count * plan.parts, x.numel(), [&](Index task) {
    const Index output = task / plan.parts, part = task % plan.parts;
    const Index base = offset_in(plan.kept, output);
    const T by = shift ? shift[output] : T(0);
    const Range mine = part_of(plan.pieces, part, plan.parts);
    alignas(64) T buffer[kBlock];
    Wide<T> state = Kind::template identity<T>();
    for (Index piece = mine.first; piece < mine.last; ++piece) {
      if (plan.rows_per_piece == 1) {
        const Index row = piece / plan.pieces_per_row, start = piece % plan.pieces_per_row * kBlock;
        const Index count = std::min(kBlock, plan.inner - start);
        const T* data = fetch(x, base + offset_in(plan.reduced, row) + start, count, buffer);
        state = Kind::combine(state, Kind::block(data, count, by));
        continue;
      }
      const Index first = piece * plan.rows_per_piece;
      const Index rows = std::min(plan.rows_per_piece, plan.reduced.count - first);
      if (rows == 1) {
        const T* data = fetch(x, base + offset_in(plan.reduced, first), plan.inner, buffer);
        state = Kind::combine(state, Kind::block(data, plan.inner, by));
        continue;
      }
      for (Index r = 0; r < rows; ++r)
        load_block(x.raw(), x.dtype(), base + offset_in(plan.reduced, first + r), buffer + r * plan.inner,
                   plan.inner);
      state = Kind::combine(state, Kind::block(buffer, rows * plan.inner, by));
    }
    partial[part * plan.kept.count + output] = state;
  });
}

template <class Kind, class T>
void reduce_columns(const Plan& plan, const Tensor& x, const T* shift, Wide<T>* partial) {
  const Index runs = (plan.inner + plan.columns - 1) / plan.columns;
  const Index pieces_per_run = (plan.last_extent + plan.rows_per_piece - 1) / plan.rows_per_piece;
  const T none = static_cast<T>(Kind::template identity<T>());
  over_tasks(plan.kept.count * runs * plan.parts, x.numel(), [&](Index task) {
    const Index part = task % plan.parts, run = task / plan.parts % runs, group = task / plan.parts / runs;
    const Index first_column = run * plan.columns;
    const Index columns = std::min(plan.columns, plan.inner - first_column);
    const Index base = offset_in(plan.kept, group) + first_column;
    const Index width = columns * plan.rows_per_piece;
    alignas(64) T buffer[kBlock], held[kBlock], shifts[kBlock];
    alignas(64) Wide<T> state[kBlock];
    std::fill_n(held, width, none);
    std::fill_n(state, width, Kind::template identity<T>());
    if (shift) {
      for (Index i = 0; i < width; ++i) shifts[i] = shift[group * plan.inner + first_column + i % columns];
    }
    const auto flush = [&] {
      for (Index i = 0; i < width; ++i) state[i] = Kind::combine(state[i], static_cast<Wide<T>>(held[i]));
      std::fill_n(held, width, none);
    };
    const Range mine = part_of(plan.pieces, part, plan.parts);
    Index unflushed = 0;
    for (Index piece = mine.first; piece < mine.last; ++piece) {
      const Index row =
          piece / pieces_per_run * plan.last_extent + piece % pieces_per_run * plan.rows_per_piece;
      const Index rows =
          std::min(plan.rows_per_piece, plan.last_extent - piece % pieces_per_run * plan.rows_per_piece);
      const T* data = fetch(x, base + offset_in(plan.reduced, row), rows * columns, buffer);
      Kind::column(held, data, rows * columns, shifts);
      if (++unflushed >= Kind::kRowsPerFlush) {
        flush();
        unflushed = 0;
      }
    }
    flush();
    for (Index r = 1; r < plan.rows_per_piece; ++r) {
      for (Index i = 0; i < columns; ++i) state[i] = Kind::combine(state[i], state[r * columns + i]);
    }
    Wide<T>* out = partial + part * plan.outputs() + group * plan.inner + first_column;
    std::copy_n(state, columns, out);
  });
}

// One wide value per output.
template <class Kind, class T>
Tensor reduce_to_wide(const Plan& plan, const Tensor& x, const T* shift) {
  const Index outputs = plan.outputs();
  const Tensor partial = workspace<Wide<T>>({outputs * plan.parts});
  Wide<T>* values = partial.data<Wide<T>>();
  plan.inner_reduced ? reduce_rows<Kind, T>(plan, x, shift, values)
                     : reduce_columns<Kind, T>(plan, x, shift, values);
  for (Index part = 1; part < plan.parts; ++part) {
    for (Index i = 0; i < outputs; ++i) values[i] = Kind::combine(values[i], values[part * outputs + i]);
  }
  return partial;
}

template <class W>
void write(const Tensor& wide, const Tensor& y, bool accumulate) {
  const W* values = wide.data<W>();
  visit_dtype(y.dtype(), [&]<class S>(TypeTag<S>) {
    S* out = y.data<S>();
    for (Index i = 0; i < y.numel(); ++i)
      out[i] = convert<S>(accumulate ? convert<W>(out[i]) + values[i] : values[i]);
  });
}

template <class Kind, class T>
void reduce_with(const Plan& plan, const Tensor& x, const Tensor& y, bool accumulate) {
  write<Wide<T>>(reduce_to_wide<Kind, T>(plan, x, nullptr), y, accumulate);
}

template <class T>
void log_sum_exp(const Plan& plan, const Tensor& x, const Tensor& y, bool accumulate) {
  const Tensor largest = reduce_to_wide<Extremum<Plain, true>, T>(plan, x, nullptr);
  const Tensor shift = workspace<T>({plan.outputs()});
  for (Index i = 0; i < plan.outputs(); ++i) {
    const double m = largest.data<double>()[i];
    shift.data<T>()[i] = std::isinf(m) ? T(0) : static_cast<T>(m);
  }
  const Tensor sums = reduce_to_wide<Additive<ShiftedExp>, T>(plan, x, shift.data<T>());
  for (Index i = 0; i < plan.outputs(); ++i)
    sums.data<double>()[i] = shift.data<T>()[i] + std::log(sums.data<double>()[i]);
  write<double>(sums, y, accumulate);
}

template <class T>
void reduce_in(Reduction op, const Plan& plan, const Tensor& x, const Tensor& y, bool accumulate) {
  switch (op) {
    case Reduction::sum:
      return reduce_with<Additive<Plain>, T>(plan, x, y, accumulate);
    case Reduction::sum_of_squares:
      return reduce_with<Additive<Squared>, T>(plan, x, y, accumulate);
    case Reduction::sum_of_abs:
      return reduce_with<Additive<Magnitude>, T>(plan, x, y, accumulate);
    case Reduction::prod:
      return reduce_with<Product, T>(plan, x, y, accumulate);
    case Reduction::max:
      return reduce_with<Extremum<Plain, true>, T>(plan, x, y, accumulate);
    case Reduction::min:
      return reduce_with<Extremum<Plain, false>, T>(plan, x, y, accumulate);
    case Reduction::max_abs: {
      // The result of an empty range is 0, not minus infinity.
      using W = Wide<T>;
      const Tensor wide = reduce_to_wide<Extremum<Magnitude, true>, T>(plan, x, nullptr);
      for (W* v = wide.data<W>(); v < wide.data<W>() + plan.outputs(); ++v) *v = *v < W(0) ? W(0) : *v;
      return write<W>(wide, y, accumulate);
    }
    case Reduction::mean:
      if constexpr (!std::is_integral_v<T>) {
        const auto count = static_cast<double>(plan.reduced_count());
        const Tensor wide = reduce_to_wide<Additive<Plain>, T>(plan, x, nullptr);
        for (Index i = 0; i < plan.outputs(); ++i) wide.data<double>()[i] /= count;
        return write<double>(wide, y, accumulate);
      }
      break;
    case Reduction::logsumexp:
      if constexpr (!std::is_integral_v<T>) return log_sum_exp<T>(plan, x, y, accumulate);
      break;
    case Reduction::argmax:
    case Reduction::argmin:
      break;
  }
  throw InternalError("reduce",
                      fmt::format("reduction {} is not defined for {}", static_cast<int>(op), to_string(x)));
}

// ---- positions of extrema

// x viewed as [outer, extent, inner]; the first position of the extremum for each (outer, inner).
template <class T, bool kLargest>
void arg_extremum(const Tensor& x, Index outer, Index extent, Index inner, std::int64_t* y) {
  using Kind = Extremum<Plain, kLargest>;
  const auto beats = [](T a, T b) { return !is_nan(b) && ((kLargest ? a > b : a < b) || is_nan(a)); };
  if (inner == 1) {
    over_tasks(outer, x.numel(), [&](Index row) {
      alignas(64) T buffer[kBlock];
      T best{};
      std::int64_t at = -1;
      for (Index start = 0; start < extent; start += kBlock) {
        const Index count = std::min(kBlock, extent - start);
        const T* data = fetch(x, row * extent + start, count, buffer);
        const T candidate = static_cast<T>(Kind::block(data, count, T(0)));
        if (at >= 0 && !beats(candidate, best)) continue;
        Index i = 0;
        while (data[i] != candidate && !(is_nan(candidate) && is_nan(data[i]))) ++i;
        best = candidate;
        at = start + i;
      }
      y[row] = at;
    });
    return;
  }
  const Index runs = (inner + kBlock - 1) / kBlock;
  over_tasks(outer * runs, x.numel(), [&](Index task) {
    const Index group = task / runs, first = task % runs * kBlock, count = std::min(kBlock, inner - first);
    alignas(64) T buffer[kBlock], best[kBlock];
    std::int64_t* at = y + group * inner + first;
    for (Index row = 0; row < extent; ++row) {
      const T* data = fetch(x, (group * extent + row) * inner + first, count, buffer);
      for (Index i = 0; i < count; ++i) {
        const bool better = row == 0 || beats(data[i], best[i]);
        best[i] = better ? data[i] : best[i];
        at[i] = better ? row : at[i];
      }
    }
  });
}

// ---- cumulative sums

template <class T>
void cumulative_sum(const Tensor& x, Index outer, Index extent, Index inner, bool reverse, const Tensor& y) {
  const Index runs = (inner + kBlock - 1) / kBlock;
  over_tasks(outer * runs, x.numel(), [&](Index task) {
    const Index group = task / runs, first = task % runs * kBlock, count = std::min(kBlock, inner - first);
    alignas(64) T in[kBlock], out[kBlock];
    alignas(64) Wide<T> sums[kBlock] = {};
    if (inner == 1) {
      // One long row: running sum block by block, from the end if reversed.
      for (Index done = 0; done < extent; done += kBlock) {
        const Index n = std::min(kBlock, extent - done);
        const Index at = group * extent + (reverse ? extent - done - n : done);
        const T* data = fetch(x, at, n, in);
        for (Index i = 0; i < n; ++i) {
          const Index j = reverse ? n - 1 - i : i;
          sums[0] += static_cast<Wide<T>>(data[j]);
          out[j] = static_cast<T>(sums[0]);
        }
        store_block(out, y.raw(), y.dtype(), at, n);
      }
      return;
    }
    for (Index step = 0; step < extent; ++step) {
      const Index row = reverse ? extent - 1 - step : step;
      const Index at = (group * extent + row) * inner + first;
      const T* data = fetch(x, at, count, in);
      for (Index i = 0; i < count; ++i) {
        sums[i] += static_cast<Wide<T>>(data[i]);
        out[i] = static_cast<T>(sums[i]);
      }
      store_block(out, y.raw(), y.dtype(), at, count);
    }
  });
}

struct CpuReduce final : ReduceKernels {
  void reduce(Reduction op, const Tensor& x, std::uint32_t axes, const Tensor& y, bool accumulate) override {
    if (y.numel() == 0) return;
    const Shape& shape = x.shape();
    if (op == Reduction::argmax || op == Reduction::argmin) {
      int axis = 0;
      while (axis < shape.rank() && (axes >> axis & 1u) == 0) ++axis;
      ensure(axis < shape.rank() && axes == 1u << axis && y.dtype() == DType::i64, "reduce",
             "argmax needs one axis and an i64 result, got axes {:#x} of {}", axes, to_string(x));
      const Index outer = shape.product(0, axis), inner = shape.product(axis + 1, shape.rank());
      with_compute_type(x.dtype(), is_floating(x.dtype()) ? x.dtype() : DType::i64, [&]<class T>(TypeTag<T>) {
        auto* out = y.data<std::int64_t>();
        op == Reduction::argmax ? arg_extremum<T, true>(x, outer, shape[axis], inner, out)
                                : arg_extremum<T, false>(x, outer, shape[axis], inner, out);
      });
      return;
    }
    const Plan plan = make_plan(shape, axes);
    ensure(plan.outputs() == y.numel(), "reduce", "{} over axes {:#x} does not give {}", to_string(x), axes,
           to_string(y));
    with_compute_type(x.dtype(), y.dtype(),
                      [&]<class T>(TypeTag<T>) { reduce_in<T>(op, plan, x, y, accumulate); });
  }

  void cumsum(const Tensor& x, int axis, bool reverse, const Tensor& y) override {
    const Shape& shape = x.shape();
    if (x.numel() == 0) return;
    const Index outer = shape.product(0, axis), inner = shape.product(axis + 1, shape.rank());
    with_compute_type(x.dtype(), y.dtype(), [&]<class T>(TypeTag<T>) {
      cumulative_sum<T>(x, outer, shape[axis], inner, reverse, y);
    });
  }
};

}  // namespace

ReduceKernels& CpuBackend::reduce() { return instance<CpuReduce>(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
