// Gather, scatter and one-hot. raise() reports a bad index, and the host finds it at the next
// synchronisation. Its element is skipped (gather and index_select write zero).
//
// Sums over repeated indices run in the order of the indices, as on the CPU: pairs (target, position) are
// sorted stably by target, and the thread at the first pair of a target adds the segment sequentially; only
// the loads of a segment overlap. scatter_add is index_add of single elements, with flat positions in y as
// targets. A sum is rounded to y once.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/divider.h"
#include "core/cuda/index.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/sort.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

// ---- Indices

// Bounds-checked access to an index tensor.
struct Indices {
  const void* data;
  bool narrow;  // i32; otherwise i64
  Index bound;
  Fault* fault;
  OpName op;

  // The index at `position`; reports it and returns -1 if it lies outside [0, bound).
  __device__ __forceinline__ Index at(Index position) const {
    const Index index = narrow ? Index{static_cast<const std::int32_t*>(data)[position]}
                               : static_cast<const std::int64_t*>(data)[position];
    if (index >= 0 && index < bound) return index;
    raise(fault, op, index, bound, position);
    return -1;
  }
};

Indices indices_of(const char* op, const Tensor& index, Index bound, Fault* fault) {
  ensure(index.dtype() == DType::i32 || index.dtype() == DType::i64, op, "indices are {}, not i64 or i32",
         name_of(index.dtype()));
  Indices indices{index.raw(), index.dtype() == DType::i32, bound, fault, {}};
  const std::string_view name = op;
  std::memcpy(indices.op.text, name.data(), std::min(name.size(), sizeof(indices.op.text) - 1));
  return indices;
}

constexpr Index kMost32 = (Index{1} << 31) - 1;  // maximum position for 32-bit arithmetic

// Calls visit(Int{}) with the integer type for positions below `count`.
template <class Visitor>
void visit_positions(Index count, Visitor&& visit) {
  if (count <= kMost32) {
    visit(std::uint32_t{});
  } else {
    visit(std::uint64_t{});
  }
}

// ---- gather and scatter_add: one index per element

// Elements of an index tensor and their positions in a larger tensor. The indexed axis has stride 0.
struct Lines {
  int rank = 0;  // after merging; axis 0 is the innermost
  Index extent[kMaxRank], stride[kMaxRank];
  Index axis_stride = 0;

  template <class Int>
  __device__ __forceinline__ Index offset(Int element) const {
    Index result = 0;
    for (int axis = 0; axis < rank - 1; ++axis) {
      const Int rest = element / static_cast<Int>(extent[axis]);
      result += static_cast<Index>(element - rest * static_cast<Int>(extent[axis])) * stride[axis];
      element = rest;
    }
    return rank > 0 ? result + static_cast<Index>(element) * stride[rank - 1] : result;
  }
};

// `with_axis`: iterates over all elements, otherwise over the lines along the axis.
Lines lines_of(const Shape& index, const Shape& large, int axis, bool with_axis) {
  const auto strides = large.strides();
  Lines lines;
  lines.axis_stride = strides[axis];
  for (int i = index.rank() - 1; i >= 0; --i) {
    if (index[i] == 1 || (i == axis && !with_axis)) continue;
    const Index stride = i == axis ? 0 : strides[i];
    const int last = lines.rank - 1;
    if (last >= 0 && stride == lines.stride[last] * lines.extent[last]) {
      lines.extent[last] *= index[i];
      continue;
    }
    lines.extent[lines.rank] = index[i];
    lines.stride[lines.rank++] = stride;
  }
  return lines;
}

// T is an unsigned integer of the element's size.
template <class T, class Int>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const T* __restrict__ x, Indices indices, Lines lines, T* __restrict__ y, Int count) {
  await_earlier_work();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index index = indices.at(static_cast<Index>(i));
    y[i] = index < 0 ? T(0) : x[lines.offset(i) + index * lines.axis_stride];
  }
}

template <class C>
__global__ void gather_any_kernel(const void* x, DType x_dtype, Indices indices, Lines lines, void* y,
                                  DType y_dtype, Index count) {
  await_earlier_work();
  const Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index index = indices.at(i);
    store_any(y, y_dtype, i,
              index < 0 ? C(0) : load_any<C>(x, x_dtype, lines.offset(i) + index * lines.axis_stride));
  }
}

// One thread adds a line's elements in order; lines have disjoint targets. Rounds at every addition.
template <class C>
__global__ void scatter_lines_kernel(const void* src, DType src_dtype, Indices indices, Lines lines,
                                     Index outer, Index count, Index inner, void* y, DType y_dtype) {
  await_earlier_work();
  const Index step = Index{gridDim.x} * blockDim.x;
  for (Index line = Index{blockIdx.x} * blockDim.x + threadIdx.x; line < outer * inner; line += step) {
    const Index base = lines.offset(line), first = line / inner * count * inner + line % inner;
    for (Index k = 0; k < count; ++k) {
      const Index at = first + k * inner, index = indices.at(at);
      if (index < 0) continue;
      const Index target = base + index * lines.axis_stride;
      store_any(y, y_dtype, target, load_any<C>(y, y_dtype, target) + load_any<C>(src, src_dtype, at));
    }
  }
}

// The target of every element as its sort key; `bound` for a bad index.
template <class Word>
__global__ void element_targets_kernel(Indices indices, Lines lines, Index count, Word bound, Word* targets,
                                       Word* positions) {
  await_earlier_work();
  const Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index index = indices.at(i);
    const Index offset = sizeof(Word) == 4 ? lines.offset(static_cast<std::uint32_t>(i)) : lines.offset(i);
    targets[i] = index < 0 ? bound : static_cast<Word>(offset + index * lines.axis_stride);
    positions[i] = static_cast<Word>(i);
  }
}

// ---- index_select and index_add: one index per slice

// Loads in flight per thread.
constexpr int kBatch = 4;

template <class X, class Y>
__device__ __forceinline__ Y converted(const X& value) {
  if constexpr (std::is_same_v<X, Y>) {
    return value;
  } else {
    Y result;
#pragma unroll
    for (int i = 0; i < X::kSize; ++i) store(&result.value[i], load(&value.value[i]));
    return result;
  }
}

// X and Y are units with the same number of elements; a slice row has `units` of them.
template <class X, class Y, class Int>
__global__ void __launch_bounds__(kThreads)
    select_kernel(const X* __restrict__ x, Indices indices, Int count, Divider<Int> picked,
                  Divider<Int> units, Y* __restrict__ y) {
  await_earlier_work();
  const Int step = Int{gridDim.x} * (kThreads * kBatch);
  for (Int first = Int{blockIdx.x} * (kThreads * kBatch) + threadIdx.x; first < count; first += step) {
    X values[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const Int item = first + b * kThreads;
      if (item >= count) break;
      const Int row = units.quotient(item), outermost = picked.quotient(row);
      const Int k = row - outermost * picked.divisor;
      const Index index = indices.at(static_cast<Index>(k));
      const Index from = static_cast<Index>(outermost) * indices.bound + index;
      const Index unit = static_cast<Index>(item - row * units.divisor);
      values[b] = index < 0 ? X{} : x[from * static_cast<Index>(units.divisor) + unit];
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const Int item = first + b * kThreads;
      if (item >= count) break;
      y[item] = converted<X, Y>(values[b]);
    }
  }
}

template <class C>
__global__ void select_any_kernel(const void* x, DType x_dtype, Indices indices, Slices s, void* y,
                                  DType y_dtype) {
  await_earlier_work();
  const Index count = s.outer * s.picked * s.inner, step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = i / s.inner, o = row / s.picked, index = indices.at(row - o * s.picked);
    const Index from = (o * s.extent + index) * s.inner + (i - row * s.inner);
    store_any(y, y_dtype, i, index < 0 ? C(0) : load_any<C>(x, x_dtype, from));
  }
}

// x and y are arrays of units of kWidth elements.
template <class X, class Y>
void run_select(const Tensor& x, const Indices& indices, const Slices& s, const Tensor& y, Index width,
                cudaStream_t stream) {
  const Index units = s.inner / width, count = s.outer * s.picked * units;
  visit_positions(count, [&]<class Int>(Int) {
    launch_early("index_select", select_kernel<X, Y, Int>, blocks_for(count, Index{kThreads} * kBatch),
                 kThreads, stream, static_cast<const X*>(x.raw()), indices, static_cast<Int>(count),
                 Divider<Int>(s.picked), Divider<Int>(units), static_cast<Y*>(y.raw()));
  });
}

// Uses units of kBytes bytes, or of the next smaller size that fits.
template <std::size_t kBytes>
void select_bytes(const Tensor& x, const Indices& indices, const Slices& s, const Tensor& y,
                  cudaStream_t stream) {
  const Index element = static_cast<Index>(size_of(x.dtype())), bytes = s.inner * element;
  if constexpr (kBytes > 1) {
    if (bytes % static_cast<Index>(kBytes) != 0 || !is_aligned(x.raw(), kBytes) ||
        !is_aligned(y.raw(), kBytes))
      return select_bytes<kBytes / 2>(x, indices, s, y, stream);
  }
  Slices words = s;
  words.inner = bytes / static_cast<Index>(kBytes);
  run_select<MemoryWord<kBytes>, MemoryWord<kBytes>>(x, indices, words, y, 1, stream);
}

// Reads an f32 table into a 16-bit type, e.g. an embedding with autocast.
template <class Y>
bool select_narrowed(const Tensor& x, const Indices& indices, const Slices& s, const Tensor& y,
                     cudaStream_t stream) {
  constexpr int kWidth = 4;
  if (s.inner % kWidth != 0 || !is_aligned(x.raw(), 16) || !is_aligned(y.raw(), 8)) return false;
  run_select<Pack<float, kWidth>, Pack<Y, kWidth>>(x, indices, s, y, kWidth, stream);
  return true;
}

template <class Word>
__global__ void slice_targets_kernel(Indices indices, Index count, Index skip, Word* targets,
                                     Word* positions) {
  await_earlier_work();
  const Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index index = indices.at(i);
    targets[i] = static_cast<Word>(index < 0 || index == skip ? indices.bound : index);
    positions[i] = static_cast<Word>(i);
  }
}

// ---- Sums of sorted segments: units of kWidth elements, kLoads of them in flight

template <class S, class Y, int N>
struct TypedUnits {
  static constexpr int kWidth = N, kLoads = 8;
  using C = ComputeType<Y>;
  using Source = Pack<S, N>;
  const S* src;
  Y* y;

  __device__ __forceinline__ Source fetch(Index i) const { return *reinterpret_cast<const Source*>(src + i); }
  static __device__ __forceinline__ void add(C* sum, const Source& source) {
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += convert<C>(source.value[k]);
  }
  __device__ __forceinline__ void get(Index i, C* sum) const {
    const auto pack = *reinterpret_cast<const Pack<Y, N>*>(y + i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = load(&pack.value[k]);
  }
  __device__ __forceinline__ void put(Index i, const C* sum) const {
    Pack<Y, N> pack;
#pragma unroll
    for (int k = 0; k < N; ++k) store(&pack.value[k], sum[k]);
    *reinterpret_cast<Pack<Y, N>*>(y + i) = pack;
  }
};

// C is the compute type of y.
template <class Compute>
struct AnyUnits {
  static constexpr int kWidth = 1, kLoads = 4;
  using C = Compute;
  using Source = C;
  const void* src;
  DType src_dtype;
  void* y;
  DType y_dtype;

  __device__ __forceinline__ Source fetch(Index i) const { return load_any<C>(src, src_dtype, i); }
  static __device__ __forceinline__ void add(C* sum, Source source) { sum[0] += source; }
  __device__ __forceinline__ void get(Index i, C* sum) const { sum[0] = load_any<C>(y, y_dtype, i); }
  __device__ __forceinline__ void put(Index i, const C* sum) const { store_any(y, y_dtype, i, sum[0]); }
};

template <class Units, class Word, class Int>
__global__ void __launch_bounds__(kThreads)
    add_segments_kernel(Units units, const Word* __restrict__ targets, const Word* __restrict__ positions,
                        Int outer, Int picked, Int row_units, Index extent) {
  await_earlier_work();
  constexpr int kWidth = Units::kWidth, kLoads = Units::kLoads;
  using C = typename Units::C;
  const Int count = outer * picked * row_units, step = Int{gridDim.x} * kThreads;
  for (Int item = Int{blockIdx.x} * kThreads + threadIdx.x; item < count; item += step) {
    const Int row = item / row_units, outermost = outer == 1 ? 0 : row / picked;
    Int p = row - outermost * picked;
    const Word target = targets[p];
    if (static_cast<Index>(target) >= extent || (p > 0 && targets[p - 1] == target)) continue;
    const Index column = static_cast<Index>(item - row * row_units) * kWidth;
    const Index width = static_cast<Index>(row_units) * kWidth;
    const Index to = (static_cast<Index>(outermost) * extent + static_cast<Index>(target)) * width + column;
    const Index from = static_cast<Index>(outermost) * static_cast<Index>(picked) * width + column;
    C sum[kWidth];
    units.get(to, sum);
    bool more = true;
    while (more) {
      typename Units::Source sources[kLoads];
      bool mine[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const Int q = p + k;
        mine[k] = q < picked && targets[q] == target;  // true for a leading range
        if (mine[k]) sources[k] = units.fetch(from + static_cast<Index>(positions[q]) * width);
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        if (mine[k]) Units::add(sum, sources[k]);
      }
      more = mine[kLoads - 1];
      p += kLoads;
    }
    units.put(to, sum);
  }
}

// src and y are viewed as [outer, picked or extent, inner]; the pairs are sorted by target.
struct Sums {
  const CudaBackend& backend;
  const Tensor &src, &y;
  const Slices& slices;
  const SortedPairs& pairs;
};

template <class Units>
void run_sums(const Sums& call, const Units& units) {
  const Slices& s = call.slices;
  const Index row_units = s.inner / Units::kWidth, count = s.outer * s.picked * row_units;
  const auto run = [&]<class Word>(TypeTag<Word>) {
    visit_positions(count, [&]<class Int>(Int) {
      launch_early("index_add", add_segments_kernel<Units, Word, Int>, blocks_for(count), kThreads,
                   call.backend.stream(), units, static_cast<const Word*>(call.pairs.keys.raw()),
                   static_cast<const Word*>(call.pairs.values.raw()), static_cast<Int>(s.outer),
                   static_cast<Int>(s.picked), static_cast<Int>(row_units), s.extent);
    });
  };
  call.pairs.keys.dtype() == DType::i32 ? run(TypeTag<std::uint32_t>{}) : run(TypeTag<std::uint64_t>{});
}

template <class S, class Y, int N>
bool sum_units(const Sums& call) {
  if (call.src.dtype() != dtype_of<S>() || call.y.dtype() != dtype_of<Y>() || call.slices.inner % N != 0 ||
      !is_aligned(call.src.raw(), N * sizeof(S)) || !is_aligned(call.y.raw(), N * sizeof(Y)))
    return false;
  run_sums(call, TypedUnits<S, Y, N>{call.src.data<S>(), call.y.data<Y>()});
  return true;
}

void sum_segments(const Sums& call) {
  if (sum_units<float, float, 4>(call) || sum_units<Half, Half, 8>(call) ||
      sum_units<BFloat16, BFloat16, 8>(call) || sum_units<Half, float, 4>(call) ||
      sum_units<BFloat16, float, 4>(call) || sum_units<float, float, 1>(call))
    return;
  const auto any = [&]<class C>(TypeTag<C>) {
    run_sums(call, AnyUnits<C>{call.src.raw(), call.src.dtype(), call.y.raw(), call.y.dtype()});
  };
  if (!is_floating(call.y.dtype())) return any(TypeTag<std::int64_t>{});
  visit_compute(call.y.dtype(), any);
}

void check_summed(const char* op, DType src, DType y) {
  const bool floating = is_floating(y) && is_floating(src);
  ensure(floating || (src == y && (y == DType::i64 || y == DType::i32)), op, "cannot add {} to {}",
         name_of(src), name_of(y));
}

// Sorts the pairs (target, position) of `fill` and adds their elements. Target `extent` marks a bad index.
template <class Fill>
void add_sorted(const CudaBackend& backend, const Tensor& src, const Tensor& y, const Slices& slices,
                Fill&& fill) {
  const bool narrow = slices.extent <= kMost32 && slices.picked <= kMost32;
  const DType dtype = narrow ? DType::i32 : DType::i64;
  const Tensor targets = backend.workspace({slices.picked}, dtype);
  const Tensor positions = backend.workspace({slices.picked}, dtype);
  if (narrow) {
    fill(static_cast<std::uint32_t*>(targets.raw()), static_cast<std::uint32_t*>(positions.raw()));
  } else {
    fill(static_cast<std::uint64_t*>(targets.raw()), static_cast<std::uint64_t*>(positions.raw()));
  }
  const int bits = std::bit_width(static_cast<std::uint64_t>(slices.extent));
  const SortedPairs pairs = sort_pairs(backend, targets, positions, bits);
  sum_segments({backend, src, y, slices, pairs});
}

__global__ void one_hot_kernel(Indices indices, Index count, void* y, DType dtype) {
  await_earlier_work();
  const Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index index = indices.at(i);
    if (index >= 0) store_any(y, dtype, i * indices.bound + index, 1.0f);
  }
}

// ---- Row marks

__global__ void mark_rows_kernel(Indices indices, Index count, Index skip, std::uint8_t* marks) {
  await_earlier_work();
  const Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = indices.at(i);
    if (row >= 0 && row != skip) marks[row] = 1;
  }
}

// One block per row, in a grid-stride loop.
__global__ void clear_rows_kernel(float* x, std::uint8_t* marks, Index rows, Index columns) {
  await_earlier_work();
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    if (marks[row] == 0) continue;
    for (Index i = threadIdx.x; i < columns; i += blockDim.x) x[row * columns + i] = 0.0f;
    __syncthreads();  // all threads have read the mark
    if (threadIdx.x == 0) marks[row] = 0;
  }
}

}  // namespace

void CudaIndex::gather(const Tensor& x, const Tensor& index, int axis, const Tensor& y) {
  const Index count = index.numel();
  if (count == 0) return;
  const Indices indices = indices_of("gather", index, x.shape()[axis], backend.fault());
  const Lines lines = lines_of(index.shape(), x.shape(), axis, true);
  if (x.dtype() == y.dtype()) {
    return visit_word(x.dtype(), [&]<class T>(TypeTag<T>) {
      visit_positions(count, [&]<class Int>(Int) {
        launch_early("gather", gather_kernel<T, Int>, blocks_for(count), kThreads, backend.stream(),
                     static_cast<const T*>(x.raw()), indices, lines, static_cast<T*>(y.raw()),
                     static_cast<Int>(count));
      });
    });
  }
  const auto any = [&]<class C>(TypeTag<C>) {
    launch_early("gather", gather_any_kernel<C>, blocks_for(count), kThreads, backend.stream(), x.raw(),
                 x.dtype(), indices, lines, y.raw(), y.dtype(), count);
  };
  if (!is_floating(x.dtype())) fail_not_floating(x.dtype());
  if (!is_floating(y.dtype())) fail_not_floating(y.dtype());
  visit_compute(x.dtype(), any);
}

void CudaIndex::scatter_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y) {
  const Index elements = index.numel();
  if (elements == 0) return;
  check_summed("scatter_add", src.dtype(), y.dtype());
  const Indices indices = indices_of("scatter_add", index, y.shape()[axis], backend.fault());
  const Shape& shape = index.shape();
  const Index count = shape[axis], inner = shape.product(axis + 1, shape.rank());
  const Index lines = elements / count;
  // One thread per line needs no sort, but waits for memory at every step: it suits short lines, or many
  // lines. 16-bit sums of several elements would be rounded at every step.
  constexpr Index kShort = 16, kMany = Index{1} << 15;
  if (count == 1 || (!is_16bit(y.dtype()) && (count <= kShort || lines >= kMany))) {
    const auto run = [&]<class C>(TypeTag<C>) {
      launch_early("scatter_add", scatter_lines_kernel<C>, blocks_for(lines), kThreads, backend.stream(),
                   src.raw(), src.dtype(), indices, lines_of(shape, y.shape(), axis, false), lines / inner,
                   count, inner, y.raw(), y.dtype());
    };
    if (!is_floating(y.dtype())) return run(TypeTag<std::int64_t>{});
    return visit_compute(y.dtype(), run);
  }
  Slices flat({y.numel()}, 0, elements);
  const Lines all = lines_of(shape, y.shape(), axis, true);
  add_sorted(backend, src, y, flat, [&]<class Word>(Word* targets, Word* positions) {
    launch_early("scatter_add", element_targets_kernel<Word>, blocks_for(elements), kThreads,
                 backend.stream(), indices, all, elements, static_cast<Word>(y.numel()), targets, positions);
  });
}

void CudaIndex::index_select(const Tensor& x, const Tensor& index, int axis, const Tensor& y,
                             const char* op) {
  if (index.numel() == 0 || y.numel() == 0) return;
  const Slices s(x.shape(), axis, index.numel());
  const Indices indices = indices_of(op, index, s.extent, backend.fault());
  if (x.dtype() == y.dtype()) return select_bytes<16>(x, indices, s, y, backend.stream());
  if (x.dtype() == DType::f32) {
    if (y.dtype() == DType::f16 && select_narrowed<Half>(x, indices, s, y, backend.stream())) return;
    if (y.dtype() == DType::bf16 && select_narrowed<BFloat16>(x, indices, s, y, backend.stream())) return;
  }
  if (!is_floating(x.dtype())) fail_not_floating(x.dtype());
  if (!is_floating(y.dtype())) fail_not_floating(y.dtype());
  const auto any = [&]<class C>(TypeTag<C>) {
    launch_early(op, select_any_kernel<C>, blocks_for(y.numel()), kThreads, backend.stream(), x.raw(),
                 x.dtype(), indices, s, y.raw(), y.dtype());
  };
  visit_compute(x.dtype(), any);
}

void CudaIndex::index_add(const Tensor& src, const Tensor& index, int axis, const Tensor& y,
                          std::optional<Index> skip) {
  const Index count = index.numel();
  if (count == 0 || src.numel() == 0) return;
  check_summed("index_add", src.dtype(), y.dtype());
  const Slices s(y.shape(), axis, count);
  const Indices indices = indices_of("index_add", index, s.extent, backend.fault());
  add_sorted(backend, src, y, s, [&]<class Word>(Word* targets, Word* positions) {
    launch_early("index_add", slice_targets_kernel<Word>, blocks_for(count), kThreads, backend.stream(),
                 indices, count, skip.value_or(-1), targets, positions);
  });
}

void CudaIndex::mark_rows(const Tensor& index, const Tensor& marks, std::optional<Index> skip) {
  const Index count = index.numel();
  if (count == 0) return;
  launch_early("mark_rows", mark_rows_kernel, blocks_for(count), kThreads, backend.stream(),
               indices_of("mark_rows", index, marks.numel(), backend.fault()), count, skip.value_or(-1),
               marks.data<std::uint8_t>());
}

void CudaIndex::clear_rows(const Tensor& x, const Tensor& marks) {
  ensure(x.rank() == 2 && x.size(0) == marks.numel(), "clear_rows", "marks {} do not match the rows of {}",
         to_string(marks), to_string(x));
  if (x.numel() == 0) return;
  launch_early("clear_rows", clear_rows_kernel, blocks_for(x.size(0), 1), kThreads, backend.stream(),
               x.data<float>(), marks.data<std::uint8_t>(), x.size(0), x.size(1));
}

void CudaIndex::one_hot(const Tensor& index, const Tensor& y) {
  backend.fill(y, 0.0);
  const Index count = index.numel();
  if (count == 0 || y.rank() == 0) return;
  const Index classes = y.shape()[y.rank() - 1];
  launch_early("one_hot", one_hot_kernel, blocks_for(count), kThreads, backend.stream(),
               indices_of("one_hot", index, classes, backend.fault()), count, y.raw(), y.dtype());
}

IndexKernels& CudaBackend::index() { return own<CudaIndex>(kernels_.index); }

}  // namespace tandem::cuda
