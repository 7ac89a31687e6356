// Top-k selection and sorting along an axis. Elements are ordered by (value, index), so every result is
// stable and unique; NaN is the largest value and the two zeros are equal. Values become order-preserving
// integers, complemented if the largest come first, with the index in the low bits.
//
//   lines of up to 2048 elements   bitonic sort in shared memory; one warp per short line
//   selection of up to 1024        one block per line reads it once and keeps entries below the current k-th
//   otherwise                      radix sort of all lines by value, then, stably, by line
//
// The choice depends only on the shapes.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/index.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/sort.h"

namespace tandem::cuda {

namespace {

// ---- Order

// Order-preserving mapping of values to integers: 32 bits, or 64 for f64 and i64.
template <class Key>
__device__ __forceinline__ Key ordered_bits(const void* data, DType dtype, Index i);

template <>
__device__ __forceinline__ std::uint32_t ordered_bits(const void* data, DType dtype, Index i) {
  constexpr std::uint32_t kSign = 0x80000000u;
  if (!is_floating(dtype)) return static_cast<std::uint32_t>(load_any<std::int32_t>(data, dtype, i)) ^ kSign;
  const float value = load_any<float>(data, dtype, i);
  if (value != value) return ~0u;
  const std::uint32_t bits = value == 0.0f ? 0 : __float_as_uint(value);
  return bits & kSign ? ~bits : bits | kSign;
}

template <>
__device__ __forceinline__ std::uint64_t ordered_bits(const void* data, DType dtype, Index i) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  if (dtype == DType::i64)
    return static_cast<std::uint64_t>(static_cast<const std::int64_t*>(data)[i]) ^ kSign;
  const double value = static_cast<const double*>(data)[i];
  if (value != value) return ~std::uint64_t{0};
  const std::uint64_t bits = value == 0.0 ? 0 : static_cast<std::uint64_t>(__double_as_longlong(value));
  return bits & kSign ? ~bits : bits | kSign;
}

// Ordered value and index within the line, below 2^32 - 1.
template <class Key>
struct Entry;

template <>
struct Entry<std::uint32_t> {
  std::uint64_t packed;

  static __device__ __forceinline__ Entry of(std::uint32_t key, std::uint32_t index) {
    return {std::uint64_t{key} << 32 | index};
  }
  // Greater than all entries.
  static __device__ __forceinline__ Entry last() { return {~std::uint64_t{0}}; }
  __device__ __forceinline__ std::uint32_t index() const { return static_cast<std::uint32_t>(packed); }
  friend __device__ __forceinline__ bool operator<(Entry a, Entry b) { return a.packed < b.packed; }
};

template <>
struct alignas(16) Entry<std::uint64_t> {
  std::uint64_t key, low;

  static __device__ __forceinline__ Entry of(std::uint64_t key, std::uint32_t index) { return {key, index}; }
  static __device__ __forceinline__ Entry last() { return {~std::uint64_t{0}, ~std::uint64_t{0}}; }
  __device__ __forceinline__ std::uint32_t index() const { return static_cast<std::uint32_t>(low); }
  friend __device__ __forceinline__ bool operator<(Entry a, Entry b) {
    return a.key < b.key || (a.key == b.key && a.low < b.low);
  }
};

// ---- Lines

// Element j of line l is at (l / inner · extent + j)·inner + l % inner.
struct Source {
  const void* x;
  DType dtype;
  Index lines, extent, inner;
  bool largest;

  __device__ __forceinline__ Index start(Index line) const {
    return inner == 1 ? line * extent : line / inner * extent * inner + line % inner;
  }
  template <class Key>
  __device__ __forceinline__ Key key(Index start, Index j) const {
    const Key bits = ordered_bits<Key>(x, dtype, start + j * inner);
    return largest ? ~bits : bits;
  }
};

struct Target {
  void* values;
  DType dtype;
  Index* indices;
  Index k;

  // Stores element `at` of the line as its `rank`-th.
  __device__ __forceinline__ void put(const Source& source, Index line, Index rank, Index at) const {
    const Index inner = source.inner, from = source.start(line) + at * inner;
    const Index to = inner == 1 ? line * k + rank : (line / inner * k + rank) * inner + line % inner;
    indices[to] = at;
    if (dtype != source.dtype)  // widened by the precision rule
      return store_any(values, dtype, to, load_any<double>(source.x, source.dtype, from));
    visit_word(dtype, [&]<class T>(TypeTag<T>) {
      static_cast<T*>(values)[to] = static_cast<const T*>(source.x)[from];
    });
  }
};

// ---- Sorting in shared memory

// A group is one warp or the whole block.
__device__ __forceinline__ void synchronize(int group) {
  if (group == kWarp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// Bitonic sort of a power of two of entries by a whole group. Synchronises the group before and after.
template <class E>
__device__ __noinline__ void sort_entries(E* entries, int size, int thread, int group) {
  for (int width = 2; width <= size; width *= 2) {
    for (int distance = width / 2; distance > 0; distance /= 2) {
      synchronize(group);
      for (int i = thread; i < size / 2; i += group) {
        const int low = 2 * i - (i & (distance - 1));
        const E a = entries[low], b = entries[low + distance];
        if ((b < a) == ((low & width) == 0)) {
          entries[low] = b;
          entries[low + distance] = a;
        }
      }
    }
  }
  synchronize(group);
}

constexpr int kMostSorted = 2048;    // elements per line
constexpr int kMostByWarp = 64;      // elements per line for a single warp
constexpr int kMostSelected = 1024;  // maximum k of a selection

// `size`: entries per line, a power of two.
template <class Key>
__global__ void sort_lines_kernel(Source source, Target target, int size, int group) {
  extern __shared__ uint4 room[];
  using E = Entry<Key>;
  const int thread = static_cast<int>(threadIdx.x) % group, own = static_cast<int>(threadIdx.x) / group;
  const int groups = static_cast<int>(blockDim.x) / group, extent = static_cast<int>(source.extent);
  E* entries = reinterpret_cast<E*>(room) + own * size;
  for (Index line = Index{blockIdx.x} * groups + own; line < source.lines;
       line += Index{gridDim.x} * groups) {
    const Index start = source.start(line);
    for (int j = thread; j < size; j += group) {
      entries[j] = j < extent ? E::of(source.key<Key>(start, j), static_cast<std::uint32_t>(j)) : E::last();
    }
    sort_entries(entries, size, thread, group);
    for (int rank = thread; rank < target.k; rank += group)
      target.put(source, line, rank, entries[rank].index());
    synchronize(group);  // all entries have been read
  }
}

// ---- Selection

constexpr int kSelectThreads = 512;
constexpr int kEntries = 2048;  // in shared memory: the current k smallest entries, then candidates
static_assert(kMostSelected + kSelectThreads <= kEntries);
constexpr int kSettled = 32;  // minimum number of candidates, beside k/2, for updating the threshold

__device__ __forceinline__ int power_of_two_from(int n) { return n <= 2 ? 2 : 1 << (32 - __clz(n - 1)); }

// Sorts the k kept entries and the candidates behind them, and removes the candidates. Returns the k-th
// entry, the new upper bound for candidates.
template <class E>
__device__ __noinline__ E settle(E* entries, int k, int* fresh) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  const int used = k + *fresh, size = power_of_two_from(used);
  for (int i = used + thread; i < size; i += kSelectThreads) entries[i] = E::last();
  sort_entries(entries, size, thread, kSelectThreads);
  if (thread == 0) *fresh = 0;
  const E threshold = entries[k - 1];
  __syncthreads();
  return threshold;
}

template <class Key>
__global__ void __launch_bounds__(kSelectThreads) select_lines_kernel(Source source, Target target) {
  constexpr int kLoads = 8;
  extern __shared__ uint4 room[];
  __shared__ int fresh;
  using E = Entry<Key>;
  E* entries = reinterpret_cast<E*>(room);
  const int thread = static_cast<int>(threadIdx.x), k = static_cast<int>(target.k);
  for (Index line = blockIdx.x; line < source.lines; line += gridDim.x) {
    const Index start = source.start(line);
    for (int i = thread; i < k; i += kSelectThreads) entries[i] = E::last();
    if (thread == 0) fresh = 0;
    E threshold = E::last();
    __syncthreads();
    for (Index base = 0; base < source.extent; base += kSelectThreads * kLoads) {
      E held[kLoads];
      bool candidates = false;
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        const Index j = base + u * kSelectThreads + thread;
        held[u] =
            j < source.extent ? E::of(source.key<Key>(start, j), static_cast<std::uint32_t>(j)) : E::last();
        candidates = candidates || held[u] < threshold;
      }
      const int bearers = __syncthreads_count(candidates);
      if (bearers == 0) continue;
      const bool room_for_all = k + fresh + bearers * kLoads <= kEntries;
      __syncthreads();  // all threads have read `fresh`
      if (room_for_all) {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          if (held[u] < threshold) entries[k + atomicAdd(&fresh, 1)] = held[u];
        }
        __syncthreads();
      } else {
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
          const bool full = k + fresh + kSelectThreads > kEntries;
          __syncthreads();  // all threads have read `fresh`
          if (full) threshold = settle(entries, k, &fresh);
          if (held[u] < threshold) entries[k + atomicAdd(&fresh, 1)] = held[u];
          __syncthreads();
        }
      }
      if (fresh >= kSettled + k / 2) threshold = settle(entries, k, &fresh);
    }
    settle(entries, k, &fresh);
    for (int rank = thread; rank < k; rank += kSelectThreads)
      target.put(source, line, rank, entries[rank].index());
    __syncthreads();  // all entries have been read
  }
}

// ---- Radix sort of all lines

// Pair p is element p % extent of line p / extent.
template <class Key, class Word>
__global__ void make_pairs_kernel(Source source, Word* keys, Word* positions) {
  const Index count = source.lines * source.extent, step = Index{gridDim.x} * blockDim.x;
  for (Index p = Index{blockIdx.x} * blockDim.x + threadIdx.x; p < count; p += step) {
    const Index line = p / source.extent;
    keys[p] = source.key<Key>(source.start(line), p - line * source.extent);
    positions[p] = static_cast<Word>(p);
  }
}

template <class Word>
__global__ void lines_of_pairs_kernel(Source source, const Word* positions, Word* keys) {
  const Index count = source.lines * source.extent, step = Index{gridDim.x} * blockDim.x;
  for (Index p = Index{blockIdx.x} * blockDim.x + threadIdx.x; p < count; p += step)
    keys[p] = positions[p] / static_cast<Word>(source.extent);
}

template <class Word>
__global__ void put_pairs_kernel(Source source, Target target, const Word* positions) {
  const Index count = source.lines * target.k, step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index line = i / target.k, rank = i - line * target.k, first = line * source.extent;
    target.put(source, line, rank, static_cast<Index>(positions[first + rank]) - first);
  }
}

template <class Key, class Word>
void sort_all(const CudaBackend& backend, const Source& source, const Target& target) {
  const Index count = source.lines * source.extent;
  const DType dtype = sizeof(Word) == 4 ? DType::i32 : DType::i64;
  const auto words = [](const Tensor& tensor) { return static_cast<Word*>(tensor.raw()); };
  SortedPairs pairs{backend.workspace({count}, dtype), backend.workspace({count}, dtype)};
  launch("topk", make_pairs_kernel<Key, Word>, blocks_for(count), kThreads, backend.stream(), source,
         words(pairs.keys), words(pairs.values));
  pairs = sort_pairs(backend, pairs.keys, pairs.values, 8 * static_cast<int>(sizeof(Key)));
  if (source.lines > 1) {
    launch("topk", lines_of_pairs_kernel<Word>, blocks_for(count), kThreads, backend.stream(), source,
           words(pairs.values), words(pairs.keys));
    const int bits = std::bit_width(static_cast<std::uint64_t>(source.lines - 1));
    pairs = sort_pairs(backend, pairs.keys, pairs.values, bits);
  }
  launch("topk", put_pairs_kernel<Word>, blocks_for(source.lines * target.k), kThreads, backend.stream(),
         source, target, words(pairs.values));
}

// ---- Choosing

// Rough cost model of an H100 in nanoseconds: a block reads 4096 elements per microsecond, and 264 blocks run
// concurrently; a full sort takes at least 40 microseconds.
bool selection_pays(Index lines, Index extent) {
  constexpr Index kBlocks = 264;
  return extent / 4 * ceil_div(lines, kBlocks) <= 40000 + lines * extent / 16;
}

template <class Key>
void run(const CudaBackend& backend, const Source& source, const Target& target) {
  using E = Entry<Key>;
  if (source.extent <= kMostSorted) {
    const int size = std::max(2, static_cast<int>(std::bit_ceil(static_cast<unsigned>(source.extent))));
    const int group = size <= kMostByWarp ? kWarp : std::min(size / 2, 512);
    const int threads = group == kWarp ? 4 * kWarp : group, groups = threads / group;
    return launch("topk", sort_lines_kernel<Key>, blocks_for(source.lines, groups),
                  Block(threads, sizeof(E) * static_cast<std::size_t>(groups * size)), backend.stream(),
                  source, target, size, group);
  }
  constexpr Index kMostIndexed = (Index{1} << 32) - 2;
  if (target.k <= kMostSelected && source.extent <= kMostIndexed &&
      selection_pays(source.lines, source.extent)) {
    return launch("topk", select_lines_kernel<Key>, blocks_for(source.lines, 1),
                  Block(kSelectThreads, sizeof(E) * kEntries), backend.stream(), source, target);
  }
  if constexpr (sizeof(Key) == 4) {
    if (source.lines * source.extent < Index{1} << 31)
      return sort_all<Key, std::uint32_t>(backend, source, target);
  }
  sort_all<Key, std::uint64_t>(backend, source, target);
}

}  // namespace

void CudaIndex::topk(const Tensor& x, Index k, int axis, bool largest, const Tensor& values,
                     const Tensor& indices) {
  if (values.numel() == 0) return;
  const Index inner = x.shape().product(axis + 1, x.rank());
  const Source source{x.raw(),         x.dtype(), x.shape().product(0, axis) * inner,
                      x.shape()[axis], inner,     largest};
  const Target target{values.raw(), values.dtype(), indices.data<Index>(), k};
  if (size_of(x.dtype()) == 8) return run<std::uint64_t>(backend, source, target);
  run<std::uint32_t>(backend, source, target);
}

}  // namespace tandem::cuda
