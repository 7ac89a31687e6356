// Scaled dot-product attention for every type, width and mask: the fallback where a library has no plan, and
// the reference of libraries. A warp owns a row of the result; its lanes hold scores of 32 rows of the other
// side, whose matrices pass through shared memory. No atomics: each gradient is a sum in fixed order, so dQ,
// dK and dV are kernels of their own.
#include <cuda_runtime.h>

#include <cmath>
#include <limits>

#include "core/cuda/attention_mask.h"
#include "core/cuda/block_reduce.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/error.h"
#include "core/kernels/attention_formulas.h"
#include "core/kernels/philox.h"

namespace tandem::cuda {

namespace {

constexpr int kRows = 8;                          // warps of a block
constexpr int kStep = 32;                         // features or columns in shared memory
constexpr int kColumnsOfLane = 4;                 // of the result
constexpr int kColumns = kWarp * kColumnsOfLane;  // of the result, a block
constexpr float kNone = -std::numeric_limits<float>::infinity();

// Tokens of one head in memory.
template <class S>
struct Rows {
  const S* data;
  Index token, count;  // elements between tokens; tokens
  int width;
};

// HeadRows on the device.
template <class S>
struct HeadMemory {
  S* data;
  Index text, head, token;

  __device__ __forceinline__ S* of(Index n, Index h) const { return data + n * text + h * head; }
};

template <class S>
HeadMemory<S> memory_of(const HeadRows& rows) {
  return {rows.tensor.data<S>() + rows.offset, rows.text, rows.head, rows.token};
}

// Parts that all kernels read.
template <class S>
struct Call {
  AttentionSizes size;
  SeenKeys seen;
  float scale;
  bool alibi;
  std::uint64_t threshold;  // of dropout; 0: none
  float kept;               // factor of kept weights
  RandomKey random;
  HeadMemory<S> query, key, value, result, dresult;
  float *lse, *dots;  // [N,H,Tq]; dots: Σ dresult·result

  __device__ __forceinline__ Index row(Index n, Index h, Index t) const {
    return (n * size.heads + h) * size.queries + t;
  }
  __device__ __forceinline__ Index key_head(Index h) const { return h * size.key_heads / size.heads; }
  __device__ __forceinline__ Rows<S> queries(Index n, Index h) const {
    return {query.of(n, h), query.token, size.queries, static_cast<int>(size.width)};
  }
  __device__ __forceinline__ Rows<S> dresults(Index n, Index h) const {
    return {dresult.of(n, h), dresult.token, size.queries, static_cast<int>(size.value_width)};
  }
  // Tokens beyond the row's length count as absent: their memory may hold anything.
  __device__ __forceinline__ Index length(Index n) const {
    return seen.lengths != nullptr ? seen.lengths[n] : size.keys;
  }
  __device__ __forceinline__ Rows<S> keys(Index n, Index g) const {
    return {key.of(n, g), key.token, length(n), static_cast<int>(size.width)};
  }
  __device__ __forceinline__ Rows<S> values(Index n, Index g) const {
    return {value.of(n, g), value.token, length(n), static_cast<int>(size.value_width)};
  }
  __device__ __forceinline__ float slope(Index h) const {
    return alibi ? attention::alibi_slope(static_cast<int>(h), static_cast<int>(size.heads)) : 0.0f;
  }
  __device__ __forceinline__ float score(float dot, float slope, Index t, Index j) const {
    return dot * scale - slope * static_cast<float>(t + size.keys - size.queries - j);
  }
  // Factor of the weight of (row, j) by dropout. `key` is resolved.
  __device__ __forceinline__ float factor(const RandomKey& key, Index row, Index j) const {
    if (threshold == 0) return 1.0f;
    const Index i = row * size.keys + j;
    const auto block = kernels::philox(key, static_cast<std::uint32_t>(i / 4));
    return block.word[i % 4] >= threshold ? kept : 0.0f;
  }
};

struct Tile {
  float other[kWarp][kStep + 1];
  float own[kRows][kStep];
};

// Dot product of this warp's row `own_row` of one matrix and row first + lane of another; absent rows are 0.
template <class S>
__device__ float dot_rows(Tile& tile, const Rows<S>& own, Index own_row, const Rows<S>& other, Index first) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  float sum = 0.0f;
  for (int from = 0; from < own.width; from += kStep) {
    __syncthreads();
    const int column = from + lane;
    const bool inside = column < own.width;
    tile.own[warp][lane] =
        inside && own_row < own.count ? load(own.data + own_row * own.token + column) : 0.0f;
    for (int r = warp; r < kWarp; r += kRows) {
      const Index row = first + r;
      tile.other[r][lane] =
          inside && row < other.count ? load(other.data + row * other.token + column) : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int d = 0; d < kStep; ++d) sum += tile.own[warp][d] * tile.other[lane][d];
  }
  return sum;
}

// sums[i] += Σ_r weight(r)·matrix[first + r][column + 32·i + lane], where lane r holds weight(r).
template <class S>
__device__ void add_rows(Tile& tile, float weight, const Rows<S>& matrix, Index first, int column,
                         float* sums) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll
  for (int i = 0; i < kColumnsOfLane; ++i) {
    const int from = column + i * kWarp;
    if (from >= matrix.width) break;
    __syncthreads();
    for (int r = warp; r < kWarp; r += kRows) {
      const bool inside = from + lane < matrix.width && first + r < matrix.count;
      tile.other[r][lane] = inside ? load(matrix.data + (first + r) * matrix.token + from + lane) : 0.0f;
    }
    __syncthreads();
    for (int r = 0; r < kWarp; ++r) sums[i] += __shfl_sync(0xffffffffu, weight, r) * tile.other[r][lane];
  }
}

// Stores the columns of a lane, times a factor.
template <class T>
__device__ void put_row(T* row, int width, int column, const float* sums, float factor) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int i = 0; i < kColumnsOfLane; ++i) {
    const int at = column + i * kWarp + lane;
    if (at < width) store(row + at, sums[i] * factor);
  }
}

struct Largest {
  __device__ __forceinline__ float operator()(float a, float b) const { return b > a ? b : a; }
};

// The query of a warp and what it reads. Grid: heads of all texts, blocks of queries, blocks of columns.
template <class S>
struct QueryRow {
  const Call<S>& call;
  int lane = threadIdx.x % kWarp, column = static_cast<int>(blockIdx.z) * kColumns;
  Index n = blockIdx.x / call.size.heads, h = blockIdx.x % call.size.heads, g = call.key_head(h);
  Index t = Index{blockIdx.y} * kRows + threadIdx.x / kWarp, row = call.row(n, h, t);
  bool valid = t < call.size.queries;
  KeyRange seen = valid ? call.seen(n, t) : KeyRange{0, 0};
  Rows<S> queries = call.queries(n, h), keys = call.keys(n, g), values = call.values(n, g);
  RandomKey random = call.threshold > 0 ? kernels::resolved(call.random) : call.random;
  float slope = call.slope(h);
};

template <class S>
__global__ void __launch_bounds__(kRows* kWarp) attention_kernel(Call<S> call) {
  await_earlier_work();
  __shared__ Tile tile;
  const QueryRow<S> q{call};
  float top = kNone, total = 0.0f, sums[kColumnsOfLane] = {};
  for (Index k = 0; k < q.keys.count; k += kWarp) {
    const Index j = k + q.lane;
    const bool visible = j >= q.seen.first && j < q.seen.last;
    if (!__syncthreads_or(visible)) continue;
    const float dot = dot_rows(tile, q.queries, q.t, q.keys, k);
    const float x = visible ? call.score(dot, q.slope, q.t, j) : kNone;
    const float next = warp_reduce(x > top ? x : top, Largest{});
    const float exponential = visible ? math::exp(x - next) : 0.0f;
    const float before = top == next ? 1.0f : math::exp(top - next);
    total = total * before + warp_reduce(exponential, Sum{});
#pragma unroll
    for (int i = 0; i < kColumnsOfLane; ++i) sums[i] *= before;
    const float weight = exponential * (visible ? call.factor(q.random, q.row, j) : 0.0f);
    add_rows(tile, convert<float>(convert<S>(weight)), q.values, k, q.column, sums);
    top = next;
  }
  if (!q.valid) return;
  put_row(call.result.of(q.n, q.h) + q.t * call.result.token, static_cast<int>(call.size.value_width),
          q.column, sums, total == 0.0f ? 0.0f : 1.0f / total);
  if (q.lane == 0 && q.column == 0) call.lse[q.row] = total == 0.0f ? kNone : top + math::log(total);
}

template <class S>
__global__ void __launch_bounds__(kRows* kWarp) attention_dots_kernel(Call<S> call) {
  await_earlier_work();
  const int lane = threadIdx.x % kWarp;
  const Index n = blockIdx.x / call.size.heads, h = blockIdx.x % call.size.heads;
  const Index t = Index{blockIdx.y} * kRows + threadIdx.x / kWarp;
  if (t >= call.size.queries) return;
  const S *y = call.result.of(n, h) + t * call.result.token,
          *dy = call.dresult.of(n, h) + t * call.dresult.token;
  float sum = 0.0f;
  for (Index e = lane; e < call.size.value_width; e += kWarp) sum += load(y + e) * load(dy + e);
  sum = warp_reduce(sum, Sum{});
  if (lane == 0) call.dots[call.row(n, h, t)] = sum;
}

// Weight of a query and a key, and the gradient of its score.
struct Weight {
  float dropped, dscore;
};
template <class S>
__device__ __forceinline__ Weight weight_of(const Call<S>& call, const RandomKey& random, float slope,
                                            Index row, Index t, Index j, float dot, float dweight) {
  const float p = math::exp(call.score(dot, slope, t, j) - call.lse[row]);
  const float factor = call.factor(random, row, j);
  return {p * factor, p * (dweight * factor - call.dots[row])};
}

template <class S>
__global__ void __launch_bounds__(kRows* kWarp) attention_dquery_kernel(Call<S> call, HeadMemory<S> dquery) {
  await_earlier_work();
  __shared__ Tile tile;
  const QueryRow<S> q{call};
  const Rows<S> dresults = call.dresults(q.n, q.h);
  float sums[kColumnsOfLane] = {};
  for (Index k = 0; k < q.keys.count; k += kWarp) {
    const Index j = k + q.lane;
    const bool visible = j >= q.seen.first && j < q.seen.last;
    if (!__syncthreads_or(visible)) continue;
    const float dot = dot_rows(tile, q.queries, q.t, q.keys, k),
                dweight = dot_rows(tile, dresults, q.t, q.values, k);
    const float dscore =
        visible ? weight_of(call, q.random, q.slope, q.row, q.t, j, dot, dweight).dscore : 0.0f;
    add_rows(tile, convert<float>(convert<S>(dscore)), q.keys, k, q.column, sums);
  }
  if (!q.valid) return;
  put_row(dquery.of(q.n, q.h) + q.t * dquery.token, static_cast<int>(call.size.width), q.column, sums,
          call.scale);
}

// Gradients of keys, or of values. A warp owns a key; the heads of queries that read it follow one another.
template <class S, bool of_values>
__global__ void __launch_bounds__(kRows* kWarp) attention_dkey_kernel(Call<S> call, HeadMemory<S> gradient) {
  await_earlier_work();
  __shared__ Tile tile;
  const int lane = threadIdx.x % kWarp;
  const Index n = blockIdx.x / call.size.key_heads, g = blockIdx.x % call.size.key_heads;
  const Index j = Index{blockIdx.y} * kRows + threadIdx.x / kWarp,
              group = call.size.heads / call.size.key_heads;
  const int column = static_cast<int>(blockIdx.z) * kColumns;
  const Rows<S> keys = call.keys(n, g), values = call.values(n, g);
  const RandomKey random = call.threshold > 0 ? kernels::resolved(call.random) : call.random;
  float sums[kColumnsOfLane] = {};
  for (Index h = g * group; h < (g + 1) * group; ++h) {
    const Rows<S> queries = call.queries(n, h), dresults = call.dresults(n, h);
    const float slope = call.slope(h);
    for (Index q = 0; q < call.size.queries; q += kWarp) {
      const Index t = q + lane;
      const KeyRange seen = t < call.size.queries ? call.seen(n, t) : KeyRange{0, 0};
      const bool visible = j >= seen.first && j < seen.last;
      if (!__syncthreads_or(visible)) continue;
      const float dot = dot_rows(tile, keys, j, queries, q);
      const float dweight = of_values ? 0.0f : dot_rows(tile, values, j, dresults, q);
      Weight weight{0.0f, 0.0f};
      if (visible) weight = weight_of(call, random, slope, call.row(n, h, t), t, j, dot, dweight);
      const float rounded_weight = convert<float>(convert<S>(of_values ? weight.dropped : weight.dscore));
      add_rows(tile, rounded_weight, of_values ? dresults : queries, q, column, sums);
    }
  }
  if (j >= call.size.keys) return;
  const Index width = of_values ? call.size.value_width : call.size.width;
  put_row(gradient.of(n, g) + j * gradient.token, static_cast<int>(width), column, sums,
          of_values ? 1.0f : call.scale);
}

template <class S>
Call<S> call_of(const AttentionCall& args, const MaskOnDevice& mask) {
  Call<S> call{};
  call.size = args.size;
  call.seen = mask.seen;
  call.scale = static_cast<float>(args.scale);
  call.alibi = args.alibi;
  call.threshold = args.dropout > 0.0 ? static_cast<std::uint64_t>(std::llround(args.dropout * 0x1p32)) : 0;
  call.kept = static_cast<float>(1.0 / (1.0 - args.dropout));
  call.random = args.random;
  return call;
}

dim3 grid_of(Index rows, Index heads, Index width) {
  const Index blocks = ceil_div(rows, kRows), columns = ceil_div(width, kColumns);
  ensure(blocks <= 65535 && heads <= 0x7fffffff && columns <= 65535, "attention",
         "{} rows of {} heads are too many", rows, heads);
  return dim3(static_cast<unsigned>(heads), static_cast<unsigned>(blocks), static_cast<unsigned>(columns));
}

// Calls visit<S>() for a floating type but f64.
template <class Visitor>
void visit_stored(DType dtype, const Visitor& visit) {
  if (dtype == DType::f16) return visit(TypeTag<Half>{});
  if (dtype == DType::bf16) return visit(TypeTag<BFloat16>{});
  ensure(dtype == DType::f32, "attention", "has no kernel for {}", name_of(dtype));
  visit(TypeTag<float>{});
}

void compute(CudaBackend& backend, const AttentionForward& args) {
  const AttentionSizes& size = args.size;
  const Index heads = size.texts * size.heads;
  const MaskOnDevice mask(backend, args.mask, size.queries, size.keys);
  visit_stored(args.query.tensor.dtype(), [&]<class S>(TypeTag<S>) {
    Call<S> call = call_of<S>(args, mask);
    call.query = memory_of<S>(args.query);
    call.key = memory_of<S>(args.key);
    call.value = memory_of<S>(args.value);
    call.result = memory_of<S>(args.result);
    call.lse = args.lse.data<float>();
    launch_early("attention", attention_kernel<S>,
                 grid_of(size.queries, heads, std::max<Index>(1, size.value_width)), kRows * kWarp,
                 backend.stream(), call);
  });
}

void compute(CudaBackend& backend, const AttentionBackward& args) {
  const AttentionSizes& size = args.size;
  const Index heads = size.texts * size.heads, key_heads = size.texts * size.key_heads;
  const MaskOnDevice mask(backend, args.mask, size.queries, size.keys);
  // Everything in the type of the gradients, which is f32 for wide gradients of 16-bit tensors.
  const DType dtype = args.dquery.tensor.dtype();
  const auto as_gradient = [&](const HeadRows& rows) {
    if (rows.tensor.dtype() == dtype) return rows;
    HeadRows copy = rows;
    copy.tensor = backend.workspace(rows.tensor.shape(), dtype);
    backend.cast(rows.tensor, copy.tensor, false);
    return copy;
  };
  const HeadRows query = as_gradient(args.query), key = as_gradient(args.key),
                 value = as_gradient(args.value), result = as_gradient(args.result),
                 dresult = as_gradient(args.dresult);
  const Tensor dots = backend.workspace({std::max<Index>(1, heads * size.queries)}, DType::f32);
  visit_stored(dtype, [&]<class S>(TypeTag<S>) {
    Call<S> call = call_of<S>(args, mask);
    call.query = memory_of<S>(query);
    call.key = memory_of<S>(key);
    call.value = memory_of<S>(value);
    call.result = memory_of<S>(result);
    call.dresult = memory_of<S>(dresult);
    call.lse = args.lse.data<float>();
    call.dots = dots.data<float>();
    const auto run = [&](auto* kernel, Index rows, Index of_heads, Index width, const auto&... more) {
      if (rows * width > 0)
        launch_early("attention_backward", kernel, grid_of(rows, of_heads, width), kRows * kWarp,
                     backend.stream(), call, more...);
    };
    run(attention_dots_kernel<S>, size.queries, heads, 1);
    run(attention_dquery_kernel<S>, size.queries, heads, size.width, memory_of<S>(args.dquery));
    run(attention_dkey_kernel<S, false>, size.keys, key_heads, size.width, memory_of<S>(args.dkey));
    run(attention_dkey_kernel<S, true>, size.keys, key_heads, size.value_width, memory_of<S>(args.dvalue));
  });
}

}  // namespace

void CudaAttention::attention(const AttentionForward& args) {
  if (args.size.texts * args.size.heads * args.size.queries == 0) return;
  const auto own = [this](const AttentionForward& call) { compute(backend, call); };
  if (!plans.forward(args, own)) own(args);
}

void CudaAttention::attention_backward(const AttentionBackward& args) {
  if (args.size.texts * args.size.heads == 0) return;
  const auto own = [this](const AttentionBackward& call) { compute(backend, call); };
  if (!plans.backward(args, own)) own(args);
}

}  // namespace tandem::cuda
