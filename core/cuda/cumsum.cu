// Cumulative sums.
//
// x is viewed as [outer, extent, inner]. If outer·inner gives too few threads, `extent` is split into chunks:
// kernels compute the f64 (i64) sum of each chunk, the prefix sums of these, and those within chunks.
#include <cuda_runtime.h>

#include <algorithm>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/reduce.h"
#include "core/cuda/rows.h"

namespace tandem::cuda {

namespace {

struct ScanShape {
  Index outer, extent, inner;
  Index chunk, chunks;
  bool reverse;

  __device__ __forceinline__ Index at(Index group, Index step, Index column) const {
    return (group * extent + (reverse ? extent - 1 - step : step)) * inner + column;
  }
};

// inner is 1: a block scans a chunk of one row tile by tile. `carry` [outer, chunks] is the prefix of each
// chunk, or null; with `totals` instead, only the sum of the chunk is written.
constexpr int kScanItems = 4;  // consecutive elements per thread

template <class T>
__global__ void __launch_bounds__(kThreads)
    scan_rows_kernel(Any<T> x, Any<T> y, ScanShape shape, const Wide<T>* carry, Wide<T>* totals) {
  using W = Wide<T>;
  __shared__ W shared[kThreads / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Index tasks = shape.outer * shape.chunks;
  for (Index task = blockIdx.x; task < tasks; task += gridDim.x) {
    const Index group = task / shape.chunks, begin = (task - group * shape.chunks) * shape.chunk;
    const Index end = begin + shape.chunk < shape.extent ? begin + shape.chunk : shape.extent;
    W before = carry != nullptr ? carry[task] : W(0);
    for (Index tile = begin; tile < end; tile += kThreads * kScanItems) {
      const Index first = tile + Index{threadIdx.x} * kScanItems;
      T items[kScanItems];
      W own = 0;
#pragma unroll
      for (int i = 0; i < kScanItems; ++i) {
        items[i] = first + i < end ? x.at(shape.at(group, first + i, 0)) : T(0);
        own += static_cast<W>(items[i]);
      }
      W up_to = own;  // over the lanes up to this one
#pragma unroll
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const W lower = __shfl_up_sync(0xffffffffu, up_to, distance);
        if (lane >= distance) up_to = lower + up_to;
      }
      if (lane == kWarp - 1) shared[warp] = up_to;
      W sum = __shfl_up_sync(0xffffffffu, up_to, 1);  // over the lanes before this one
      if (lane == 0) sum = 0;
      __syncthreads();
      W preceding = before;
      for (int w = 0; w < kThreads / kWarp; ++w) {
        if (w < warp) preceding += shared[w];
        before += shared[w];
      }
      __syncthreads();
      sum = preceding + sum;
      if (totals == nullptr) {
#pragma unroll
        for (int i = 0; i < kScanItems; ++i) {
          sum += static_cast<W>(items[i]);
          if (first + i < end) y.put(shape.at(group, first + i, 0), static_cast<T>(sum));
        }
      }
    }
    if (totals != nullptr && threadIdx.x == 0) totals[task] = before;
  }
}

// One thread per column of a chunk; carry and totals are [outer, chunks, inner].
template <class T>
__global__ void __launch_bounds__(kThreads)
    scan_columns_kernel(Any<T> x, Any<T> y, ScanShape shape, const Wide<T>* carry, Wide<T>* totals) {
  using W = Wide<T>;
  const Index tasks = shape.outer * shape.chunks * shape.inner, stride = Index{gridDim.x} * blockDim.x;
  for (Index task = Index{blockIdx.x} * blockDim.x + threadIdx.x; task < tasks; task += stride) {
    const Index part = task / shape.inner, column = task - part * shape.inner;
    const Index group = part / shape.chunks, begin = (part - group * shape.chunks) * shape.chunk;
    const Index end = begin + shape.chunk < shape.extent ? begin + shape.chunk : shape.extent;
    W sum = carry != nullptr ? carry[task] : W(0);
    for (Index step = begin; step < end; ++step) {
      const Index at = shape.at(group, step, column);
      sum += static_cast<W>(x.at(at));
      if (totals == nullptr) y.put(at, static_cast<T>(sum));
    }
    if (totals != nullptr) totals[task] = sum;
  }
}

// Replaces totals [outer, chunks, inner] by the sums of all preceding chunks.
template <class W>
__global__ void scan_totals_kernel(W* totals, Index outer, Index chunks, Index inner) {
  const Index columns = outer * inner, stride = Index{gridDim.x} * blockDim.x;
  for (Index column = Index{blockIdx.x} * blockDim.x + threadIdx.x; column < columns; column += stride) {
    const Index group = column / inner;
    W* own = totals + group * chunks * inner + (column - group * inner);
    W sum = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const W total = own[chunk * inner];
      own[chunk * inner] = sum;
      sum += total;
    }
  }
}

template <class T>
void scan(const CudaBackend& backend, const Tensor& x, ScanShape shape, const Tensor& y) {
  using W = Wide<T>;
  const bool rows = shape.inner == 1;
  // Number of blocks without chunks, and the minimum length of a chunk.
  const Index blocks = rows ? shape.outer : ceil_div(shape.outer * shape.inner, kThreads);
  const Index least = rows ? kThreads * kScanItems * 4 : 64;
  shape.chunk = shape.extent;
  if (blocks * 2 <= kFullGrid && shape.extent >= 2 * least) {
    const Index chunks = std::min(ceil_div(kFullGrid / 2, blocks), shape.extent / least);
    shape.chunk = ceil_div(shape.extent, chunks);
  }
  shape.chunks = ceil_div(shape.extent, shape.chunk);
  const auto start = [&](const W* carry, W* totals) {
    const Index tasks = shape.outer * shape.chunks * shape.inner;
    const Index grid = std::min(rows ? tasks : ceil_div(tasks, kThreads), kMostBlocks);
    launch("cumsum", rows ? scan_rows_kernel<T> : scan_columns_kernel<T>, grid, kThreads, backend.stream(),
           any_of<T>(x), any_of<T>(y), shape, carry, totals);
  };
  if (shape.chunks == 1) return start(nullptr, nullptr);
  const Tensor memory = backend.workspace(Shape{shape.outer * shape.chunks * shape.inner}, dtype_of<W>());
  start(nullptr, memory.data<W>());
  launch("cumsum", scan_totals_kernel<W>, blocks_for(shape.outer * shape.inner, kWarp), kWarp,
         backend.stream(), memory.data<W>(), shape.outer, shape.chunks, shape.inner);
  start(memory.data<W>(), nullptr);
}

}  // namespace

void CudaReduce::cumsum(const Tensor& x, int axis, bool reverse, const Tensor& y) {
  const Shape& shape = x.shape();
  if (x.numel() == 0) return;
  const ScanShape scanned{.outer = shape.product(0, axis),
                          .extent = shape[axis],
                          .inner = shape.product(axis + 1, shape.rank()),
                          .chunk = 0,
                          .chunks = 0,
                          .reverse = reverse};
  with_compute_type(x.dtype(), y.dtype(), [&]<class T>(TypeTag<T>) { scan<T>(backend, x, scanned, y); });
}

}  // namespace tandem::cuda
