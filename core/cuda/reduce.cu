// Reductions.
//
// Adjacent axes of one kind are merged. If the innermost elements are reduced, a group of lanes or a block
// computes one output (rows_kernel). If they are kept, each thread has a few adjacent outputs and iterates
// over rows, so that a warp reads consecutive memory (columns_kernel). With few outputs, the reduced elements
// are split into parts whose size depends only on the shape; a second kernel combines the parts in order.
// Threads sum in the compute type and move to f64 after a few terms, so that long sums stay accurate.
#include <cuda_runtime.h>

#include <algorithm>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/reduce.h"
#include "core/cuda/reduce_kinds.h"
#include "core/cuda/rows.h"
#include "core/error.h"
#include "core/kernels/merged_axes.h"

namespace tandem::cuda {

namespace {

// ---- The shape of a reduction

__device__ __forceinline__ Index offset_in(const kernels::AxisSet& axes, Index index) {
  Index result = 0;
#pragma unroll 1
  for (int axis = axes.rank - 1; axis > 0; --axis) {
    const Index outer = index / axes.extent[axis];
    result += (index - outer * axes.extent[axis]) * axes.stride[axis];
    index = outer;
  }
  return axes.rank > 0 ? result + index * axes.stride[0] : 0;
}

struct Plan : kernels::ReductionAxes {
  bool packed = false;  // inner_reduced: runs of several packs each, all aligned to 16 bytes

  int group = 1;    // rows: threads per output; columns: adjacent threads
  Index total = 0;  // rows: elements per output; columns: rows
  Index part = 0;   // share of `total` per part
  Index parts = 1;
  Index packs = 0, tiles = 0;  // columns: packs of outputs, and blocks that cover them
};

// `least` is the minimum useful part size; parts are multiples of `unit`.
void cut(Plan& plan, Index blocks, Index least, Index unit) {
  plan.part = std::max<Index>(plan.total, 1);
  if (blocks * 4 > kFullGrid) return;
  const Index parts =
      std::clamp<Index>(ceil_div(kFullGrid, blocks), 1, std::max<Index>(1, plan.total / least));
  if (parts == 1) return;
  plan.part = ceil_div(ceil_div(plan.total, parts), unit) * unit;
  plan.parts = ceil_div(plan.total, plan.part);
}

void plan_rows(Plan& plan, int width) {
  plan.total = plan.reduced.count * plan.inner;
  const Index steps = ceil_div(plan.total, plan.reduced.rank == 0 || plan.packed ? width : 1);
  const Index outputs = plan.kept.count;
  // One block per output if outputs are long, or too few to fill the GPU with warps.
  const bool whole_block = steps >= 1024 || (steps >= 128 && outputs * kWarp < kProcessors * 512);
  plan.group = whole_block ? kThreads : power_of_two_for(ceil_div(steps, 2), kWarp);
  plan.part = std::max<Index>(plan.total, 1);
  if (whole_block) cut(plan, outputs, Index{kThreads} * 4 * width, 64);
}

void plan_columns(Plan& plan, int width) {
  plan.total = plan.reduced.count;
  plan.packs = plan.kept.count * (plan.inner / width);
  const bool shared = plan.total >= 64 || (plan.total >= 8 && plan.packs < kProcessors * kThreads);
  plan.group = power_of_two_for(plan.packs, shared ? kWarp : kThreads);
  plan.tiles = ceil_div(plan.packs, plan.group);
  cut(plan, plan.tiles, Index{kThreads / plan.group} * 16, 1);
}

// Rows of threads in a block of columns.
int rows_of_block(const Plan& plan) { return power_of_two_for(plan.part, kThreads / plan.group); }

// ---- Results

struct Output {
  void* y;
  DType dtype;
  bool accumulate;
  void* partial;  // states [parts][outputs], or null: write y
  Index outputs;
};

template <class Kind>
__device__ __forceinline__ void write(const Kind& kind, const Output& out, Index part, Index index,
                                      typename Kind::State state) {
  if (out.partial != nullptr) {
    static_cast<typename Kind::State*>(out.partial)[part * out.outputs + index] = state;
    return;
  }
  auto result = kind.finish(state);
  if (out.accumulate) result += load_any<decltype(result)>(out.y, out.dtype, index);
  store_any(out.y, out.dtype, index, result);
}

// ---- Kernels

template <class Kind>
constexpr bool kJoint = requires {
  &Kind::template add_all<typename Kind::Element, 2>;
};

// Accumulators of a thread: one per element of a pack, or one for the whole pack.
template <class Kind, int kPack>
struct Held {
  static constexpr int kWidth = kJoint<Kind> ? 1 : kPack;

  typename Kind::State state;
  typename Kind::Local local[kWidth];

  __device__ __forceinline__ explicit Held(const Kind& kind) : state(kind.none()) { clear(kind); }
  __device__ __forceinline__ void clear(const Kind& kind) {
#pragma unroll
    for (int v = 0; v < kWidth; ++v) local[v] = kind.local();
  }
  __device__ __forceinline__ void flush(const Kind& kind) {
#pragma unroll
    for (int width = kWidth / 2; width > 0; width /= 2) {
#pragma unroll
      for (int v = 0; v < width; ++v) local[v] = kind(local[v], local[v + width]);
    }
    state = kind(state, Kind::widen(local[0]));
    clear(kind);
  }
};

// Reduced elements are contiguous.
template <class Source, class Kind>
__global__ void __launch_bounds__(kThreads) rows_kernel(Source x, Kind kind, Plan plan, Output out) {
  await_earlier_work();
  constexpr int kWidth = Source::kWidth;
  using State = typename Kind::State;
  __shared__ State shared[kThreads / kWarp];
  const int group = plan.group, shift = log2_of(group), per_block = kThreads >> shift;
  const int lane = static_cast<int>(threadIdx.x) & (group - 1);
  const Index tasks = plan.kept.count * plan.parts;
  for (Index first = Index{blockIdx.x} * per_block; first < tasks; first += Index{gridDim.x} * per_block) {
    const Index task = first + (threadIdx.x >> shift);
    const Index output = plan.parts == 1 ? task : task / plan.parts, part = task - output * plan.parts;
    Held<Kind, kWidth> held(kind);
    if (task < tasks) {
      const Index base = offset_in(plan.kept, output), begin = part * plan.part;
      const Index end = begin + plan.part < plan.total ? begin + plan.part : plan.total;
      const auto pack = [&](Index i, const typename Source::Packed& values) {
        typename Kind::Element elements[kWidth];
#pragma unroll
        for (int v = 0; v < kWidth; ++v) elements[v] = convert<typename Kind::Element>(values.value[v]);
        if constexpr (kJoint<Kind> && kWidth > 1) {
          kind.template add_all<typename Source::Stored>(held.local[0], elements);
        } else {
#pragma unroll
          for (int v = 0; v < kWidth; ++v) kind.add(held.local[v], elements[v], i + v);
        }
      };
      const auto one = [&](Index at, Index i) { kind.add(held.local[0], x.at(at), i); };
      if (plan.reduced.rank == 0) {
        walk_run<Kind::kFlush>(
            x, base, begin, end, lane, group, [&](Index i) { one(base + i, i); }, pack,
            [&] { held.flush(kind); });
      } else {
        const int width = plan.packed ? kWidth : 1;
        int terms = 0;
#pragma unroll 1
        for (Index i = begin + Index{lane} * width; i < end; i += Index{group} * width) {
          // 32-bit divisions take several times fewer instructions.
          const Index run = plan.total <= 0xffffffff
                                ? static_cast<unsigned>(i) / static_cast<unsigned>(plan.inner)
                                : i / plan.inner;
          const Index at = base + offset_in(plan.reduced, run) + (i - run * plan.inner);
          if (plan.packed) {
            pack(i, x.fetch(at));
          } else {
            one(at, i);
          }
          if (++terms == Kind::kFlush) {
            held.flush(kind);
            terms = 0;
          }
        }
        held.flush(kind);
      }
    }
    const State state = group_reduce(held.state, group, shared, kind);
    if (lane == 0 && task < tasks) write(kind, out, part, output, state);
  }
}

// Kept elements are contiguous; a thread has kWidth of them.
template <class Source, int kWidth, class Kind>
__global__ void __launch_bounds__(kThreads) columns_kernel(Source x, Kind kind, Plan plan, Output out) {
  await_earlier_work();
  using State = typename Kind::State;
  constexpr int kBatch = kBatchOf<Source>;
  __shared__ State shared[kWidth * kThreads];
  const int shift = log2_of(plan.group);
  const int column = static_cast<int>(threadIdx.x) & (plan.group - 1);
  const int row = static_cast<int>(threadIdx.x) >> shift, rows = static_cast<int>(blockDim.x) >> shift;
  const Index part = blockIdx.x / static_cast<unsigned>(plan.tiles);
  const Index tile = blockIdx.x - part * plan.tiles;
  const Index pack = tile * plan.group + column;
  const bool valid = pack < plan.packs;
  State states[kWidth];
#pragma unroll
  for (int v = 0; v < kWidth; ++v) states[v] = kind.none();
  if (valid) {
    const Index per_run = plan.inner / kWidth;
    const Index run = plan.kept.rank == 0 ? 0 : pack / per_run;
    const Index base = offset_in(plan.kept, run) + (pack - run * per_run) * kWidth;
    const Index end = (part + 1) * plan.part < plan.total ? (part + 1) * plan.part : plan.total;
    Index r = part * plan.part + row;
    Index left = end > r ? (end - r + rows - 1) >> log2_of(rows) : 0;
    typename Kind::Local local[kWidth];
    const auto add = [&](Index at, const auto& values) {
#pragma unroll
      for (int v = 0; v < kWidth; ++v)
        kind.add(local[v], convert<typename Kind::Element>(values.value[v]), at);
    };
    const auto fetch = [&](Index at) {
      const Index from =
          base + (plan.reduced.rank == 1 ? at * plan.reduced.stride[0] : offset_in(plan.reduced, at));
      if constexpr (kWidth > 1) {
        return x.fetch(from);
      } else {
        return Pack<typename Source::Element, 1>{{x.at(from)}};
      }
    };
    while (left > 0) {
      const int now = static_cast<int>(left < Kind::kFlush ? left : Kind::kFlush);
      left -= now;
#pragma unroll
      for (int v = 0; v < kWidth; ++v) local[v] = kind.local();
      int done = 0;
      for (; done + kBatch <= now; done += kBatch) {
        decltype(fetch(r)) values[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) values[b] = fetch(r + b * rows);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) add(r + b * rows, values[b]);
        r += kBatch * rows;
      }
#pragma unroll 1
      for (; done < now; ++done, r += rows) add(r, fetch(r));
#pragma unroll
      for (int v = 0; v < kWidth; ++v) states[v] = kind(states[v], Kind::widen(local[v]));
    }
  }
  column_reduce<kWidth>(states, plan.group, shared, kind);
  if (row == 0 && valid) {
#pragma unroll
    for (int v = 0; v < kWidth; ++v) write(kind, out, part, pack * kWidth + v, states[v]);
  }
}

// Combines the parts of every output in order.
template <class Kind>
__global__ void __launch_bounds__(kThreads)
    parts_kernel(const typename Kind::State* partial, Kind kind, Index parts, int columns, Output out) {
  await_earlier_work();
  __shared__ typename Kind::State shared[kThreads];
  const int column = threadIdx.x % columns, rows = blockDim.x / columns;
  const Index output = Index{blockIdx.x} * columns + column;
  typename Kind::State state = kind.none();
  if (output < out.outputs) {
#pragma unroll 1
    for (Index part = threadIdx.x / columns; part < parts; part += rows)
      state = kind(state, partial[part * out.outputs + output]);
  }
  column_reduce<1>(&state, columns, shared, kind);
  if (threadIdx.x < columns && output < out.outputs) write(kind, out, 0, output, state);
}

// ---- Launches

struct Call {
  const CudaBackend& backend;
  const Tensor& x;
  Plan plan;
  Output out;
};

template <class Kind, class Start>
void run_parts(const Call& call, const Plan& plan, const Kind& kind, const Start& start) {
  if (plan.parts == 1) return start(call.out);
  const auto bytes = static_cast<Index>(sizeof(typename Kind::State)) * plan.parts * call.out.outputs;
  const Tensor memory = call.backend.workspace(Shape{bytes}, DType::u8);
  Output partial = call.out;
  partial.partial = memory.raw();
  start(partial);
  const int columns = power_of_two_for(call.out.outputs, kWarp);
  launch_early("reduce", parts_kernel<Kind>, ceil_div(call.out.outputs, columns), kThreads,
               call.backend.stream(), static_cast<const typename Kind::State*>(memory.raw()), kind,
               plan.parts, columns, call.out);
}

template <class Source, int kWidth, class Kind>
void run_columns(const Call& call, const Source& x, const Kind& kind) {
  Plan plan = call.plan;
  plan_columns(plan, kWidth);
  const Index blocks = plan.tiles * plan.parts;
  ensure(blocks <= 0x7fffffff, "reduce", "{} needs too many blocks", to_string(call.x));
  run_parts(call, plan, kind, [&](const Output& out) {
    launch_early("reduce", columns_kernel<Source, kWidth, Kind>, blocks, plan.group * rows_of_block(plan),
                 call.backend.stream(), x, kind, plan, out);
  });
}

template <class Source, class Kind>
void run_with(const Call& call, const Source& x, const Kind& kind) {
  const bool fits = Source::kWidth > 1 && packs_fit(call.x.raw(), call.plan.inner, 16 / Source::kWidth);
  if (!call.plan.inner_reduced) {
    if constexpr (Source::kWidth > 1) {
      if (fits) return run_columns<Source, Source::kWidth>(call, x, kind);
    }
    return run_columns<Source, 1>(call, x, kind);
  }
  Plan plan = call.plan;
  plan.packed = fits;
  plan_rows(plan, Source::kWidth);
  const Index blocks = ceil_div(plan.kept.count * plan.parts, kThreads / plan.group);
  run_parts(call, plan, kind, [&](const Output& out) {
    launch_early("reduce", rows_kernel<Source, Kind>, std::min(blocks, kMostBlocks), kThreads,
                 call.backend.stream(), x, kind, plan, out);
  });
}

// Runs Kind<T> with a reader of x for elements of T.
template <template <class> class Kind, class T, class... Arguments>
void run_in(const Call& call, Arguments... arguments) {
  const Kind<T> kind{arguments...};
  if constexpr (std::is_same_v<T, float>) {
    switch (call.x.dtype()) {
      case DType::f32:
        return run_with(call, Typed<float>{call.x.data<float>()}, kind);
      case DType::f16:
        return run_with(call, Typed<Half>{call.x.data<Half>()}, kind);
      case DType::bf16:
        return run_with(call, Typed<BFloat16>{call.x.data<BFloat16>()}, kind);
      default:
        break;
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    if (call.x.dtype() == DType::f64) return run_with(call, Typed<double>{call.x.data<double>()}, kind);
  }
  // Positions are computed in the type of x.
  if constexpr (!std::is_same_v<Kind<T>, PositionOf<T>> || std::is_integral_v<T>)
    run_with(call, any_of<T>(call.x), kind);
}

template <class T>
void reduce_in(Reduction op, const Call& call) {
  using Sum = SumOf<T>;
  using Extremum = ExtremumOf<T>;
  switch (op) {
    case Reduction::sum:
      return run_in<SumOf, T>(call, Sum::Map::plain, 1.0);
    case Reduction::sum_of_squares:
      return run_in<SumOf, T>(call, Sum::Map::squares, 1.0);
    case Reduction::sum_of_abs:
      return run_in<SumOf, T>(call, Sum::Map::magnitudes, 1.0);
    case Reduction::mean:
      if constexpr (std::is_integral_v<T>) break;
      return run_in<SumOf, T>(call, Sum::Map::plain, static_cast<double>(call.plan.reduced_count()));
    case Reduction::prod:
      return run_with(call, any_of<T>(call.x), ProductOf<T>{});
    case Reduction::max:
      return run_in<ExtremumOf, T>(call, Extremum::Key::value);
    case Reduction::min:
      return run_in<ExtremumOf, T>(call, Extremum::Key::reversed);
    case Reduction::max_abs:
      return run_in<ExtremumOf, T>(call, Extremum::Key::magnitude);
    case Reduction::argmax:
      return run_in<PositionOf, T>(call, false);
    case Reduction::argmin:
      return run_in<PositionOf, T>(call, true);
    case Reduction::logsumexp:
      if constexpr (!std::is_integral_v<T>) return run_in<LogSumExpOf, T>(call);
      break;
  }
  throw InternalError(
      "reduce", fmt::format("reduction {} is not defined for {}", static_cast<int>(op), to_string(call.x)));
}

}  // namespace

void CudaReduce::reduce(Reduction op, const Tensor& x, std::uint32_t axes, const Tensor& y, bool accumulate) {
  if (y.numel() == 0) return;
  const Shape& shape = x.shape();
  const bool position = op == Reduction::argmax || op == Reduction::argmin;
  if (position) {
    const bool one_axis = axes != 0 && (axes & (axes - 1)) == 0 && axes < 1u << shape.rank();
    ensure(one_axis && y.dtype() == DType::i64, "reduce",
           "argmax needs one axis and an i64 result, got axes {:#x} of {}", axes, to_string(x));
  }
  const Plan plan{{shape, axes}};
  ensure(plan.outputs() == y.numel(), "reduce", "{} over axes {:#x} does not give {}", to_string(x), axes,
         to_string(y));
  const Call call{backend, x, plan, {y.raw(), y.dtype(), accumulate && !position, nullptr, y.numel()}};
  const DType result = !position ? y.dtype() : is_floating(x.dtype()) ? x.dtype() : DType::i64;
  with_compute_type(x.dtype(), result, [&]<class T>(TypeTag<T>) { reduce_in<T>(op, call); });
}

ReduceKernels& CudaBackend::reduce() { return own<CudaReduce>(kernels_.reduce); }

}  // namespace tandem::cuda
