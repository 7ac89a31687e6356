// Strided copies: permutations, slices, padding, concatenation, broadcasting and flips.
//
// A copy is planned as on the CPU: extents of 1 are dropped, axes are sorted so that the innermost one writes
// consecutive elements, and axes contiguous on both sides merge. The result is one of
//   memory copy       everything merged into one run
//   runs              both sides contiguous along the innermost axis: units of up to 16 bytes
//   transposition     x is contiguous along another axis: tiles in shared memory
//   assembled packs   y contiguous, any strides in x (broadcasts, flips): 16-byte stores
//   single elements   otherwise
// Accumulating copies of one floating type use the same kernels, mixed types one element at a time.
#include <cuda_runtime.h>

#include <algorithm>
#include <optional>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/divider.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/shape.h"
#include "core/error.h"
#include "core/kernels/merged_axes.h"

namespace tandem::cuda {

namespace {

// ---- Positions

using Axis = kernels::CopyAxis;

// At least one axis.
struct Plan : kernels::CopyAxes {
  Axis& inner() { return axes[rank - 1]; }
  const Axis& inner() const { return axes[rank - 1]; }
  Index count() const {
    Index result = 1;
    for (int i = 0; i < rank; ++i) result *= axes[i].extent;
    return result;
  }
};

Plan make_plan(const StridedView& from, const StridedView& to, const Shape& extents) {
  Plan plan{{from, to, extents}};
  if (plan.rank == 0) plan.axes[plan.rank++] = {1, 1, 1};
  return plan;
}

// Kernel arguments of a plan; axis 0 is the innermost.
template <class Int>
struct Walk {
  int rank = 0;
  Int count = 0;
  Divider<Int> extent[kMaxRank];
  Index from[kMaxRank], to[kMaxRank];

  // Adds the offsets of N units axis by axis, so that an axis is read once for all; `units` is overwritten.
  template <int N>
  __device__ __forceinline__ void locate(Int (&units)[N], Index (&from_offsets)[N],
                                         Index (&to_offsets)[N]) const {
#pragma unroll
    for (int axis = 0; axis < kMaxRank - 1; ++axis) {
      if (axis >= rank - 1) break;
      const Divider<Int> divider = extent[axis];
      const Index along_from = from[axis], along_to = to[axis];
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const Int rest = divider.quotient(units[n]);
        const auto at = static_cast<Index>(units[n] - rest * divider.divisor);
        from_offsets[n] += at * along_from;
        to_offsets[n] += at * along_to;
        units[n] = rest;
      }
    }
    const Index along_from = from[rank - 1], along_to = to[rank - 1];
#pragma unroll
    for (int n = 0; n < N; ++n) {
      from_offsets[n] += static_cast<Index>(units[n]) * along_from;
      to_offsets[n] += static_cast<Index>(units[n]) * along_to;
    }
  }
  __device__ __forceinline__ void locate(Int unit, Index& from_offset, Index& to_offset) const {
    Int units[1] = {unit};
    Index from_offsets[1] = {from_offset}, to_offsets[1] = {to_offset};
    locate(units, from_offsets, to_offsets);
    from_offset = from_offsets[0];
    to_offset = to_offsets[0];
  }
};

template <class Int>
Walk<Int> walk_of(const Plan& plan) {
  Walk<Int> walk;
  walk.rank = plan.rank;
  walk.count = static_cast<Int>(plan.count());
  for (int i = 0; i < plan.rank; ++i) {
    const Axis& axis = plan.axes[plan.rank - 1 - i];
    walk.extent[i] = Divider<Int>(axis.extent);
    walk.from[i] = axis.from;
    walk.to[i] = axis.to;
  }
  return walk;
}

// Calls visit(Walk<…>) with 32-bit positions if they suffice.
template <class Visitor>
void visit_walk(const Plan& plan, Visitor&& visit) {
  if (plan.count() < Index{1} << 31) {
    visit(walk_of<std::uint32_t>(plan));
  } else {
    visit(walk_of<std::uint64_t>(plan));
  }
}

// Whether all strides, except the innermost, and the innermost extent are multiples of `width`.
bool divides(const Plan& plan, Index width, bool from, bool to) {
  for (int i = 0; i < plan.rank - 1; ++i) {
    if (from && plan.axes[i].from % width != 0) return false;
    if (to && plan.axes[i].to % width != 0) return false;
  }
  return plan.inner().extent % width == 0;
}

// ---- Operations on the elements

template <class Unit>
struct Move {
  using Value = Unit;
  static __device__ __forceinline__ void put(const Value& value, Value* y) { *y = value; }
};

template <class T, int N>
struct Add {
  using Value = Pack<T, N>;
  static __device__ __forceinline__ void put(const Value& value, Value* y) {
    Value sum = *y;
#pragma unroll
    for (int i = 0; i < N; ++i) store(&sum.value[i], load(&sum.value[i]) + load(&value.value[i]));
    *y = sum;
  }
};

// ---- Kernels

// Loads in flight per thread.
constexpr int kBatch = 4;

template <class Int>
unsigned blocks_for_walk(const Walk<Int>& walk) {
  return blocks_for(static_cast<Index>(walk.count), Index{kThreads} * kBatch);
}

template <class Op, class Int>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(const typename Op::Value* __restrict__ x, typename Op::Value* __restrict__ y,
                const Walk<Int> walk) {
  await_earlier_work();
  const Int step = Int{gridDim.x} * (kThreads * kBatch);
  for (Int first = Int{blockIdx.x} * (kThreads * kBatch) + threadIdx.x; first < walk.count; first += step) {
    Int units[kBatch];
    Index from[kBatch] = {}, to[kBatch] = {};
#pragma unroll
    for (int b = 0; b < kBatch; ++b) units[b] = first + b * kThreads;
    walk.locate(units, from, to);
    typename Op::Value values[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (first + b * kThreads < walk.count) values[b] = x[from[b]];
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (first + b * kThreads < walk.count) Op::put(values[b], y + to[b]);
    }
  }
}

// A unit is a pack of y, whose elements are `step` apart in x.
template <class T, class Int>
__global__ void __launch_bounds__(kThreads)
    assemble_kernel(const T* __restrict__ x, T* __restrict__ y, const Walk<Int> walk, Index x_step) {
  await_earlier_work();
  constexpr int kWidth = Pack<T>::kSize;
  const Int step = Int{gridDim.x} * kThreads;
  for (Int unit = Int{blockIdx.x} * kThreads + threadIdx.x; unit < walk.count; unit += step) {
    Index from = 0, to = 0;
    walk.locate(unit, from, to);
    Pack<T> pack;
    if (x_step == 0) {
      const T value = x[from];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) pack.value[i] = value;
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) pack.value[i] = x[from + i * x_step];
    }
    *reinterpret_cast<Pack<T>*>(y + to) = pack;
  }
}

// y ← y + x for any types.
template <class C, class Int>
__global__ void add_any_kernel(const void* x, DType x_dtype, Index x_offset, void* y, DType y_dtype,
                               Index y_offset, const Walk<Int> walk) {
  await_earlier_work();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int unit = Int{blockIdx.x} * blockDim.x + threadIdx.x; unit < walk.count; unit += step) {
    Index from = x_offset, to = y_offset;
    walk.locate(unit, from, to);
    store_any(y, y_dtype, to, load_any<C>(y, y_dtype, to) + load_any<C>(x, x_dtype, from));
  }
}

// ---- Transpositions

// A plane with rows contiguous in x and columns contiguous in y, and the outer axes.
struct Plane {
  std::uint32_t rows = 0, columns = 0, tiles = 0;
  Index column_from = 0, row_to = 0;                // the other strides
  Divider<std::uint32_t> tiles_across, tiles_down;  // tiles along the columns, along the rows
  Walk<std::uint32_t> around;
};

constexpr int tile_of(int pack) { return pack > 4 ? 8 * pack : 32; }

// Blocks of tile × tile elements; packs of `kPack` elements are read along rows and written along columns. A
// line of shared memory has an odd number of words, which avoids bank conflicts in both directions.
template <class Op, class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const T* __restrict__ x, T* __restrict__ y, const Plane plane) {
  await_earlier_work();
  constexpr int kTile = tile_of(kPack), kPacks = kTile / kPack;
  constexpr int kPitch = kTile + (sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1);
  constexpr int kTurns = kTile * kPacks / kThreads;
  static_assert(kTurns * kThreads == kTile * kPacks);
  using Values = Pack<T, kPack>;
  __shared__ T tile[kTile * kPitch];

  for (std::uint32_t t = blockIdx.x; t < plane.tiles; t += gridDim.x) {
    const std::uint32_t line = plane.tiles_across.quotient(t);
    const std::uint32_t around = plane.tiles_down.quotient(line);
    const std::uint32_t column0 = (t - line * plane.tiles_across.divisor) * kTile;
    const std::uint32_t row0 = (line - around * plane.tiles_down.divisor) * kTile;
    Index from = 0, to = 0;
    plane.around.locate(around, from, to);

    Values held[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int i = turn * kThreads + static_cast<int>(threadIdx.x);
      const std::uint32_t row = row0 + i % kPacks * kPack, column = column0 + i / kPacks;
      if (row < plane.rows && column < plane.columns)
        held[turn] = *reinterpret_cast<const Values*>(x + from + row + column * plane.column_from);
    }
    __syncthreads();  // the previous tile has been read
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int i = turn * kThreads + static_cast<int>(threadIdx.x);
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        tile[i / kPacks * kPitch + i % kPacks * kPack + k] = held[turn].value[k];
    }
    __syncthreads();
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int i = turn * kThreads + static_cast<int>(threadIdx.x);
      const std::uint32_t row = row0 + i / kPacks, column = column0 + i % kPacks * kPack;
      if (row >= plane.rows || column >= plane.columns) continue;
      Values values;
#pragma unroll
      for (int k = 0; k < kPack; ++k) values.value[k] = tile[(i % kPacks * kPack + k) * kPitch + i / kPacks];
      Op::put(values, reinterpret_cast<Values*>(y + to + row * plane.row_to + column));
    }
  }
}

// Below this extent of either axis tiles would be mostly empty, and the caches suffice.
constexpr Index kLeastTransposed = 16;

// The plan as a plane in tiles of packs of `pack` elements, if it is a transposition.
std::optional<Plane> plane_of(const Plan& plan, int pack) {
  const Axis& column = plan.inner();
  if (plan.rank < 2 || column.to != 1 || column.extent < kLeastTransposed) return {};
  if (column.from == 0 || column.from == 1) return {};
  int at = plan.rank - 2;
  while (at >= 0 && plan.axes[at].from != 1) --at;
  if (at < 0 || plan.axes[at].extent < kLeastTransposed) return {};
  const Axis& row = plan.axes[at];
  Plan around;
  bool fits =
      row.extent % pack == 0 && column.extent % pack == 0 && column.from % pack == 0 && row.to % pack == 0;
  for (int i = 0; i < plan.rank - 1; ++i) {
    if (i == at) continue;
    around.axes[around.rank++] = plan.axes[i];
    fits = fits && plan.axes[i].from % pack == 0 && plan.axes[i].to % pack == 0;
  }
  if (!fits) return {};
  if (around.rank == 0) around.axes[around.rank++] = {};
  const int tile = tile_of(pack);
  const Index across = ceil_div(column.extent, tile), down = ceil_div(row.extent, tile);
  const Index tiles = across * down * around.count();
  constexpr Index kMost = (Index{1} << 31) - 1;
  if (row.extent > kMost || column.extent > kMost || tiles > kMost) return {};
  Plane plane;
  plane.rows = static_cast<std::uint32_t>(row.extent);
  plane.columns = static_cast<std::uint32_t>(column.extent);
  plane.tiles = static_cast<std::uint32_t>(tiles);
  plane.column_from = column.from;
  plane.row_to = row.to;
  plane.tiles_across = Divider<std::uint32_t>(across);
  plane.tiles_down = Divider<std::uint32_t>(down);
  plane.around = walk_of<std::uint32_t>(around);
  return plane;
}

// Op<N> processes N elements of T.
template <class T, template <int> class Op>
bool transpose(const Plan& plan, const T* x, T* y, cudaStream_t stream) {
  constexpr int kPack = 16 / sizeof(T) < 8 ? 16 / static_cast<int>(sizeof(T)) : 8;
  // Enough blocks to fill the device several times; a block processes several tiles.
  const auto blocks = [](const Plane& plane) { return std::min<unsigned>(plane.tiles, kProcessors * 32); };
  if (is_aligned(x, kPack * sizeof(T)) && is_aligned(y, kPack * sizeof(T))) {
    if (const auto plane = plane_of(plan, kPack)) {
      launch_early("strided_copy", transpose_kernel<Op<kPack>, T, kPack>, blocks(*plane), kThreads, stream, x,
                   y, *plane);
      return true;
    }
  }
  const auto plane = plane_of(plan, 1);
  if (plane)
    launch_early("strided_copy", transpose_kernel<Op<1>, T, 1>, blocks(*plane), kThreads, stream, x, y,
                 *plane);
  return plane.has_value();
}

template <class T>
struct MoveOf {
  template <int N>
  using Op = Move<Pack<T, N>>;
};
template <class T>
struct AddOf {
  template <int N>
  using Op = Add<T, N>;
};

// ---- Choosing

// Copies units of `width` elements; x and y point at the first element.
template <class Op>
void run_copy(Plan plan, Index width, const void* x, void* y, cudaStream_t stream) {
  if (width > 1) {
    for (int i = 0; i < plan.rank - 1; ++i) {
      plan.axes[i].from /= width;
      plan.axes[i].to /= width;
    }
    plan.inner().extent /= width;
  }
  using Value = typename Op::Value;
  visit_walk(plan, [&]<class Int>(const Walk<Int>& walk) {
    launch_early("strided_copy", copy_kernel<Op, Int>, blocks_for_walk(walk), kThreads, stream,
                 static_cast<const Value*>(x), static_cast<Value*>(y), walk);
  });
}

// Uses units of kBytes bytes, or of the next smaller size that fits.
template <std::size_t kBytes, std::size_t kElement>
void copy_runs(const Plan& plan, const void* x, void* y, cudaStream_t stream) {
  constexpr Index kWidth = kBytes / kElement;
  if constexpr (kWidth > 1) {
    if (!is_aligned(x, kBytes) || !is_aligned(y, kBytes) || !divides(plan, kWidth, true, true))
      return copy_runs<kBytes / 2, kElement>(plan, x, y, stream);
  }
  run_copy<Move<MemoryWord<kBytes>>>(plan, kWidth, x, y, stream);
}

// T is an unsigned integer of the element size.
template <class T>
void copy_elements(const Plan& plan, const Tensor& from, const Tensor& to, cudaStream_t stream) {
  const T* x = static_cast<const T*>(from.raw()) + plan.from;
  T* y = static_cast<T*>(to.raw()) + plan.to;
  const Axis& inner = plan.inner();
  if (inner.from == 1 && inner.to == 1) {
    if (plan.rank > 1) return copy_runs<16, sizeof(T)>(plan, x, y, stream);
    const std::size_t bytes = static_cast<std::size_t>(inner.extent) * sizeof(T);
    return check(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
  }
  if (transpose<T, MoveOf<T>::template Op>(plan, x, y, stream)) return;
  constexpr Index kWidth = Pack<T>::kSize;
  if (inner.to == 1 && is_aligned(y, 16) && divides(plan, kWidth, false, true)) {
    Plan packs = plan;
    packs.inner() = {inner.extent / kWidth, inner.from * kWidth, kWidth};
    return visit_walk(packs, [&]<class Int>(const Walk<Int>& walk) {
      launch_early("strided_copy", assemble_kernel<T, Int>, blocks_for(static_cast<Index>(walk.count)),
                   kThreads, stream, x, y, walk, inner.from);
    });
  }
  run_copy<Move<T>>(plan, 1, x, y, stream);
}

// Both sides have the same floating type.
template <class T>
void add_elements(const Plan& plan, const Tensor& from, const Tensor& to, cudaStream_t stream) {
  constexpr int kWidth = Pack<T>::kSize;
  const T* x = from.data<T>() + plan.from;
  T* y = to.data<T>() + plan.to;
  const Axis& inner = plan.inner();
  if (inner.from == 1 && inner.to == 1 && is_aligned(x, 16) && is_aligned(y, 16) &&
      divides(plan, kWidth, true, true))
    return run_copy<Add<T, kWidth>>(plan, kWidth, x, y, stream);
  if (transpose<T, AddOf<T>::template Op>(plan, x, y, stream)) return;
  run_copy<Add<T, 1>>(plan, 1, x, y, stream);
}

template <class C>
void add_any(const Plan& plan, const Tensor& x, const Tensor& y, cudaStream_t stream) {
  visit_walk(plan, [&]<class Int>(const Walk<Int>& walk) {
    launch_early("strided_copy", add_any_kernel<C, Int>, blocks_for(static_cast<Index>(walk.count)), kThreads,
                 stream, x.raw(), x.dtype(), plan.from, y.raw(), y.dtype(), plan.to, walk);
  });
}

void accumulate_into(const Plan& plan, const Tensor& x, const Tensor& y, cudaStream_t stream) {
  if (!is_floating(y.dtype())) {
    ensure(x.dtype() == y.dtype() && (y.dtype() == DType::i64 || y.dtype() == DType::i32), "strided_copy",
           "cannot accumulate {} into {}", name_of(x.dtype()), name_of(y.dtype()));
    return add_any<std::int64_t>(plan, x, y, stream);
  }
  if (!is_floating(x.dtype())) fail_not_floating(x.dtype());
  if (x.dtype() == DType::f64 || y.dtype() == DType::f64) return add_any<double>(plan, x, y, stream);
  if (x.dtype() != y.dtype()) return add_any<float>(plan, x, y, stream);
  visit_below_f64(x.dtype(), [&]<class T>(TypeTag<T>) { add_elements<T>(plan, x, y, stream); });
}

}  // namespace

void CudaShape::strided_copy(const Tensor& x, const StridedView& from, const Tensor& y, const StridedView& to,
                             const Shape& extents, bool accumulate) {
  if (extents.numel() == 0) return;
  const Plan plan = make_plan(from, to, extents);
  if (accumulate) return accumulate_into(plan, x, y, backend.stream());
  ensure(x.dtype() == y.dtype(), "strided_copy", "source {} and destination {} differ in dtype",
         name_of(x.dtype()), name_of(y.dtype()));
  visit_word(y.dtype(), [&]<class T>(TypeTag<T>) { copy_elements<T>(plan, x, y, backend.stream()); });
}

ShapeKernels& CudaBackend::shape() { return own<CudaShape>(kernels_.shape); }

}  // namespace tandem::cuda
