// Layer norm and RMS norm: a team of threads has a row, eight elements per thread in registers, so that x is
// read once for mean, variance and result. Narrow rows share a warp; wide ones use a whole block (up to 8192
// elements). A team processes two rows at once to have more bytes in flight. Backward accumulates dgamma and
// dbeta, each thread for its own columns, and a second kernel adds the sums of the blocks in a fixed order.
// Other widths and mixed types use one block per row, in several passes through the cache. The sum of a
// residual norm is computed where a row is read, its gradients where one is stored.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/norm.h"
#include "core/cuda/norm_columns.h"
#include "core/cuda/norm_parameters.h"
#include "core/cuda/norm_row_access.h"
#include "core/cuda/numeric.h"

namespace tandem::cuda {

namespace {

constexpr int kRows = 2;  // rows per team and iteration
constexpr int kTeamBlock = 128;
constexpr Index kWidestTeam = 1024;

// The exact sum a + b of two T (Knuth), for a mean with a low part.
template <class T>
struct Split {
  T high, low;
};
template <class T>
__device__ __forceinline__ Split<T> exact_sum(T a, T b) {
  const T high = a + b, back = high - a;
  return {high, (a - (high - back)) + (b - back)};
}

template <class T>
__device__ __forceinline__ T reciprocal_root(T x) {
  return T(1) / sqrt(x);
}

// ---- Layer norm, rows in registers

// Sums of N values over a team, for all its threads. Teams within a warp are powers of two; a wider team is
// the whole block, and `shared` holds 32·N values.
template <bool kWide, int N>
__device__ __forceinline__ void team_sum(float (&value)[N], int team, float* shared) {
  const int within = kWide ? kWarp : team;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    for (int distance = within / 2; distance > 0; distance /= 2)
      value[i] += __shfl_xor_sync(0xffffffffu, value[i], distance);
  }
  if constexpr (kWide) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = team / kWarp;
    if (lane == 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) shared[i * kWarp + warp] = value[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] = warp_reduce(lane < warps ? shared[i * kWarp + lane] : 0.0f, Sum{});
    __syncthreads();
  }
}

// Position of a thread: its columns [column, column+8) if active, and the first row of its team.
struct TeamPlace {
  int team_of_block, teams;
  Index column;
  bool active;
};
template <bool kWide>
__device__ __forceinline__ TeamPlace team_place(int team, Index width) {
  const int thread = static_cast<int>(threadIdx.x);
  const Index column = Index{kWide ? thread : thread % team} * kWidth;
  return {kWide ? 0 : thread / team, kWide ? 1 : static_cast<int>(blockDim.x) / team, column, column < width};
}

// Without a mean: RMS norm.
template <class S, bool kWide, class Rows>
__global__ void __launch_bounds__(kWide ? 1024 : kTeamBlock)
    layer_norm_kernel(Rows source, Slot gamma, Slot beta, float eps, S* y, Slot mean, Slot rstd, Index rows,
                      Index width, int team) {
  await_earlier_work();
  using Values = Pack<typename Rows::Element, kWidth>;
  const bool centred = mean.data != nullptr;
  __shared__ float shared[kRows * kWarp];
  const auto [team_of_block, teams, column, active] = team_place<kWide>(team, width);
  float scale[kWidth], offset[kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    scale[j] = active ? element(gamma, column + j, 1.0f) : 0.0f;
    offset[j] = active ? element(beta, column + j, 0.0f) : 0.0f;
  }
  const float n = static_cast<float>(width);
  const Index stride = Index{gridDim.x} * teams * kRows;
  for (Index base = Index{blockIdx.x} * teams * kRows; base < rows; base += stride) {
    const Index row = base + team_of_block * kRows;
    Values in[kRows] = {};
    float first[kRows], total[kRows], squares[kRows];
    Split<float> middle[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Index start = min(row + r, rows - 1) * width;
      if (active) in[r] = source.read(start + column, row + r < rows);
      first[r] = centred ? source.near(start) : 0.0f;
    }
    // Differences from the first element avoid cancellation in rows with a large mean.
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      total[r] = 0.0f;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) total[r] += load(&in[r].value[j]) - first[r];
      if (!active || !centred) total[r] = 0.0f;
    }
    if (centred) team_sum<kWide>(total, team, shared);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      middle[r] = exact_sum(first[r], total[r] / n);
      squares[r] = 0.0f;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const float d = (load(&in[r].value[j]) - middle[r].high) - middle[r].low;
        squares[r] += d * d;
      }
      if (!active) squares[r] = 0.0f;
    }
    team_sum<kWide>(squares, team, shared);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (row + r >= rows) continue;
      const float root = reciprocal_root(squares[r] / n + eps);
      if (active) {
        Pack<S, kWidth> out;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          const float d = (load(&in[r].value[j]) - middle[r].high) - middle[r].low;
          store(&out.value[j], d * root * scale[j] + offset[j]);
        }
        *reinterpret_cast<Pack<S, kWidth>*>(y + (row + r) * width + column) = out;
      }
      if (column == 0) {
        set_element(mean, row + r, middle[r].high);
        set_element(rstd, row + r, root);
      }
    }
  }
}

// More than 512 threads have too few registers for two rows beside the sums, so they process one row at once.
template <bool kWide, int kAtOnce>
inline constexpr int kBackwardThreads = !kWide         ? kTeamBlock
                                        : kAtOnce == 1 ? 1024
                                                       : 512;

// `partial` [blocks, 2, width] receives Σ dy·normalised and Σ dy over each block's rows; may be null.
template <class S, bool kWide, int kAtOnce, class Gradients>
__global__ void __launch_bounds__(kBackwardThreads<kWide, kAtOnce>)
    layer_norm_backward_kernel(const typename Gradients::Element* x, Slot gamma, const float* mean,
                               const float* rstd, const S* dy, Gradients target, float* partial, Index rows,
                               Index width, int team) {
  await_earlier_work();
  using Values = Pack<typename Gradients::Element, kWidth>;
  using Given = Pack<S, kWidth>;
  const bool centred = mean != nullptr;
  __shared__ float shared[2 * kAtOnce * kWarp];
  __shared__ float held[2 * kWidth][kWide ? 1 : kTeamBlock];
  const auto [team_of_block, teams, column, active] = team_place<kWide>(team, width);
  float scale[kWidth], sum_gamma[kWidth] = {}, sum_beta[kWidth] = {};
#pragma unroll
  for (int j = 0; j < kWidth; ++j) scale[j] = active ? element(gamma, column + j, 1.0f) : 0.0f;
  const float n = static_cast<float>(width);
  const Index stride = Index{gridDim.x} * teams * kAtOnce;
  for (Index base = Index{blockIdx.x} * teams * kAtOnce; base < rows; base += stride) {
    const Index row = base + team_of_block * kAtOnce;
    Values in[kAtOnce] = {};
    Given gradient[kAtOnce] = {};
    float middle[kAtOnce], root[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      const Index from = min(row + r, rows - 1);
      if (active) {
        in[r] = *reinterpret_cast<const Values*>(x + from * width + column);
        gradient[r] = *reinterpret_cast<const Given*>(dy + from * width + column);
      }
      middle[r] = centred ? mean[from] : 0.0f;
      root[r] = rstd[from];
    }
    float sums[2 * kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      const bool counts = active && row + r < rows;
      float first = 0.0f, second = 0.0f;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const float normal = (load(&in[r].value[j]) - middle[r]) * root[r], d = load(&gradient[r].value[j]);
        if (counts) {
          sum_gamma[j] += d * normal;
          sum_beta[j] += d;
          first += d * scale[j];
          second += d * scale[j] * normal;
        }
      }
      sums[2 * r] = first;
      sums[2 * r + 1] = second;
    }
    if (!target.wanted()) continue;
    team_sum<kWide>(sums, team, shared);
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (!active || row + r >= rows) continue;
      const float c1 = centred ? sums[2 * r] / n : 0.0f, c2 = sums[2 * r + 1] / n;
      float out[kWidth];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const float normal = (load(&in[r].value[j]) - middle[r]) * root[r], d = load(&gradient[r].value[j]);
        out[j] = root[r] * (d * scale[j] - c1 - normal * c2);
      }
      target.write((row + r) * width + column, out);
    }
  }
  if (partial == nullptr) return;
  if constexpr (!kWide) {
    // The first team adds the sums of the other teams in order.
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      held[j][thread] = sum_gamma[j];
      held[kWidth + j][thread] = sum_beta[j];
    }
    __syncthreads();
    if (team_of_block != 0) return;
    for (int other = thread + team; other < kTeamBlock; other += team) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        sum_gamma[j] += held[j][other];
        sum_beta[j] += held[kWidth + j][other];
      }
    }
  }
  if (!active) return;
  float* to = partial + Index{blockIdx.x} * 2 * width + column;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    to[j] = sum_gamma[j];
    to[width + j] = sum_beta[j];
  }
}

// ---- Layer norm, any types and widths: one block per row

template <class T>
__global__ void layer_norm_any_kernel(Slot x, Slot gamma, Slot beta, double eps, Slot y, Slot mean, Slot rstd,
                                      Index rows, Index width) {
  await_earlier_work();
  __shared__ T shared[kWarp];
  const T n = static_cast<T>(width);
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const Index start = row * width;
    T total = 0, squares = 0;
    Split<T> middle{};
    if (mean.data != nullptr) {
      const T first = load_any<T>(x.data, x.dtype, start);
      for (Index i = threadIdx.x; i < width; i += blockDim.x)
        total += load_any<T>(x.data, x.dtype, start + i) - first;
      middle = exact_sum(first, block_reduce(total, T(0), shared, Sum{}) / n);
    }
    for (Index i = threadIdx.x; i < width; i += blockDim.x) {
      const T d = (load_any<T>(x.data, x.dtype, start + i) - middle.high) - middle.low;
      squares += d * d;
    }
    const T root = reciprocal_root(block_reduce(squares, T(0), shared, Sum{}) / n + static_cast<T>(eps));
    for (Index i = threadIdx.x; i < width; i += blockDim.x) {
      const T d = (load_any<T>(x.data, x.dtype, start + i) - middle.high) - middle.low;
      store_any(y.data, y.dtype, start + i, d * root * element(gamma, i, T(1)) + element(beta, i, T(0)));
    }
    if (threadIdx.x == 0) {
      set_element(mean, row, middle.high);
      set_element(rstd, row, root);
    }
  }
}

template <class T>
__global__ void layer_norm_backward_any_kernel(Slot x, Slot gamma, Slot mean, Slot rstd, Slot dy, Slot dx,
                                               Index rows, Index width) {
  await_earlier_work();
  __shared__ T shared[kWarp];
  const T n = static_cast<T>(width);
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const T middle = element(mean, row, T(0)), root = element(rstd, row, T(0));
    const auto normal = [&](Index i) {
      return (load_any<T>(x.data, x.dtype, row * width + i) - middle) * root;
    };
    const auto scaled = [&](Index i) {
      return load_any<T>(dy.data, dy.dtype, row * width + i) * element(gamma, i, T(1));
    };
    T first = 0, second = 0;
    for (Index i = threadIdx.x; i < width; i += blockDim.x) {
      const T d = scaled(i);
      first += d;
      second += d * normal(i);
    }
    const T c1 = mean.data != nullptr ? block_reduce(first, T(0), shared, Sum{}) / n : T(0);
    const T c2 = block_reduce(second, T(0), shared, Sum{}) / n;
    for (Index i = threadIdx.x; i < width; i += blockDim.x)
      store_any(dx.data, dx.dtype, row * width + i, root * (scaled(i) - c1 - normal(i) * c2));
  }
}

// sum = residual + dropout(branch), and the gradients of both, by element.
template <class T>
__global__ void residual_sum_any_kernel(Slot residual, Slot branch, Slot sum, RowDropout dropout,
                                        Index count) {
  await_earlier_work();
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += Index{gridDim.x} * blockDim.x)
    store_any(sum.data, sum.dtype, i,
              load_any<T>(residual.data, residual.dtype, i) +
                  dropout.of(i, load_any<T>(branch.data, branch.dtype, i)));
}

template <class T>
__global__ void residual_gradients_any_kernel(const T* through_norm, Slot dsum, Slot dx, Slot dbranch,
                                              RowDropout dropout, Index count) {
  await_earlier_work();
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += Index{gridDim.x} * blockDim.x) {
    const T value = through_norm[i] + element(dsum, i, T(0));
    store_any(dx.data, dx.dtype, i, value);
    set_element(dbranch, i, dropout.of(i, value));
  }
}

// Σ dy·normalised and Σ dy over the rows of a slice. Block: (columns of a warp, slice); warp: every 8th row.
constexpr int kSliceWarps = 8;

template <class T>
__global__ void parameter_sums_kernel(Slot x, Slot mean, Slot rstd, Slot dy, Index rows, Index width,
                                      T* partial) {
  await_earlier_work();
  __shared__ T held[2][kSliceWarps][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Index column = Index{blockIdx.x} * kWarp + lane;
  T sum_gamma = 0, sum_beta = 0;
  if (column < width) {
    for (Index row = Index{blockIdx.y} * kSliceWarps + warp; row < rows;
         row += Index{gridDim.y} * kSliceWarps) {
      const T d = load_any<T>(dy.data, dy.dtype, row * width + column);
      const T distance = load_any<T>(x.data, x.dtype, row * width + column) - element(mean, row, T(0));
      sum_gamma += d * (distance * element(rstd, row, T(0)));
      sum_beta += d;
    }
  }
  held[0][warp][lane] = sum_gamma;
  held[1][warp][lane] = sum_beta;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  for (int other = 1; other < kSliceWarps; ++other) {
    sum_gamma += held[0][other][lane];
    sum_beta += held[1][other][lane];
  }
  partial[Index{blockIdx.y} * 2 * width + column] = sum_gamma;
  partial[Index{blockIdx.y} * 2 * width + width + column] = sum_beta;
}

// ---- Choosing

// Threads per row: a power of two within a warp, or whole warps.
int team_of(Index width) {
  const Index threads = width / kWidth;
  if (threads > kWarp) return static_cast<int>(ceil_div(threads, kWarp) * kWarp);
  int team = 1;
  while (team < threads) team *= 2;
  return team;
}

// Calls visit(TypeTag<S>{}, std::bool_constant<team is a block>{}) and returns true if rows of `width` fit
// into registers.
template <class Visit>
bool visit_rows(ColumnTypes types, DType dtype, Index width, Visit&& visit) {
  if (!types.packed || width > kWidestTeam * kWidth) return false;
  visit_below_f64(dtype, [&](auto tag) {
    team_of(width) > kWarp ? visit(tag, std::true_type{}) : visit(tag, std::false_type{});
  });
  return true;
}

// Blocks of a pass over row pairs, such that a multiprocessor gets about `threads` threads in total.
unsigned row_blocks(Index rows, int teams, int block, int threads) {
  const Index most = kProcessors * std::max(1, threads / block);
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(rows, Index{teams} * kRows), 1, most));
}

// Whether all are aligned packs of one type below f64; undefined tensors are ignored.
bool alike(std::initializer_list<const Tensor*> tensors, Index width) {
  return column_types(tensors, width).packed;
}

// Launches for rows that fit into registers. visit(TypeTag<S>{}, launch) calls launch with the rows.
template <class Visit>
bool norm_in_registers(CudaBackend& backend, const RowNormForward& args, ColumnTypes types, Visit&& visit) {
  const auto& [x, gamma, beta, y, mean, rstd, eps, groups] = args;
  const Index rows = rstd.numel(), width = x.numel() / rows;
  return visit_rows(types, y.dtype(), width, [&]<class S, bool kWide>(TypeTag<S>, std::bool_constant<kWide>) {
    const int team = team_of(width), block = kWide ? team : kTeamBlock;
    visit(TypeTag<S>{}, [&]<class Rows>(const Rows& source) {
      // Several waves of blocks, each with several rows to amortise loading the parameters.
      launch_early("layer_norm", layer_norm_kernel<S, kWide, Rows>,
                   row_blocks(rows, block / team, block, 8192), block, backend.stream(), source,
                   slot_of(gamma), slot_of(beta), static_cast<float>(eps), y.data<S>(), slot_of(mean),
                   slot_of(rstd), rows, width, team);
    });
  });
}

void norm_of_any(CudaBackend& backend, const RowNormForward& args, DType compute) {
  const auto& [x, gamma, beta, y, mean, rstd, eps, groups] = args;
  const Index rows = rstd.numel(), width = x.numel() / rows;
  visit_compute(compute, [&]<class T>(TypeTag<T>) {
    launch_early("layer_norm", layer_norm_any_kernel<T>, blocks_for(rows, 1), kThreads, backend.stream(),
                 slot_of(x), slot_of(gamma), slot_of(beta), eps, slot_of(y), slot_of(mean), slot_of(rstd),
                 rows, width);
  });
}

// As norm_in_registers; launch takes the place of the gradients.
template <class Visit>
bool gradients_in_registers(CudaBackend& backend, const RowNormBackward& args, ColumnTypes types,
                            Visit&& visit) {
  const auto& [x, gamma, mean, rstd, dy, dx, dgamma, dbeta, groups] = args;
  const bool parameters = dgamma.defined() || dbeta.defined();
  const Index rows = rstd.numel(), width = x.numel() / rows;
  return visit_rows(
      types, dy.dtype(), width, [&]<class S, bool kWide>(TypeTag<S>, std::bool_constant<kWide>) {
        const int team = team_of(width), block = kWide ? team : kTeamBlock;
        // One wave of few blocks, because each block writes partial sums for a whole row.
        const unsigned blocks = row_blocks(rows, block / team, block, 512);
        const Tensor partial = backend.workspace(Shape{parameters ? blocks : 0, 2, width}, DType::f32);
        visit(TypeTag<S>{}, [&]<class Gradients>(const Gradients& target) {
          auto* kernel = layer_norm_backward_kernel<S, kWide, kRows, Gradients>;
          if constexpr (kWide) {
            if (block > kBackwardThreads<kWide, kRows>)
              kernel = layer_norm_backward_kernel<S, kWide, 1, Gradients>;
          }
          launch_early("layer_norm_backward", kernel, blocks, block, backend.stream(),
                       x.data<typename Gradients::Element>(), slot_of(gamma), data_or_null<float>(mean),
                       rstd.data<float>(), dy.data<S>(), target, parameters ? partial.data<float>() : nullptr,
                       rows, width, team);
        });
        if (parameters)
          finish_parameters<float>(partial.data<float>(), blocks, width, dgamma, dbeta, backend.stream());
      });
}

void gradients_of_any(CudaBackend& backend, const RowNormBackward& args, DType compute) {
  const auto& [x, gamma, mean, rstd, dy, dx, dgamma, dbeta, groups] = args;
  const Index rows = rstd.numel(), width = x.numel() / rows;
  visit_compute(compute, [&]<class T>(TypeTag<T>) {
    if (dgamma.defined() || dbeta.defined()) {  // before dx, which may overwrite dy
      const Index columns = ceil_div(width, kWarp);
      const Index slices = std::clamp<Index>(ceil_div(rows, kSliceWarps * 4), 1,
                                             std::max<Index>(1, kProcessors * 8 / columns));
      const Tensor partial = backend.workspace(Shape{slices, 2, width}, compute);
      launch_early("layer_norm_backward", parameter_sums_kernel<T>,
                   dim3(static_cast<unsigned>(columns), static_cast<unsigned>(slices)), kSliceWarps * kWarp,
                   backend.stream(), slot_of(x), slot_of(mean), slot_of(rstd), slot_of(dy), rows, width,
                   partial.data<T>());
      finish_parameters<T>(partial.data<T>(), slices, width, dgamma, dbeta, backend.stream());
    }
    if (!dx.defined()) return;
    launch_early("layer_norm_backward", layer_norm_backward_any_kernel<T>, blocks_for(rows, 1), kThreads,
                 backend.stream(), slot_of(x), slot_of(gamma), slot_of(mean), slot_of(rstd), slot_of(dy),
                 slot_of(dx), rows, width);
  });
}

// Whether there is nothing to do; clears the gradients of parameters for empty x.
bool is_empty(CudaBackend& backend, const RowNormBackward& args) {
  const bool parameters = args.dgamma.defined() || args.dbeta.defined();
  if (args.x.numel() > 0) return !parameters && !args.dx.defined();
  for (const Tensor& gradient : {args.dgamma, args.dbeta}) {
    if (gradient.defined()) backend.fill(gradient, 0.0);
  }
  return true;
}

RowDropout dropout_of(const RandomKey& key, double p) {
  const double scale = 1.0 / (1.0 - p);
  return {key, static_cast<std::uint64_t>(std::llround(p * 0x1p32)), static_cast<float>(scale), scale};
}

// The residual is f32, or of the type of the branch; the kernels in registers have no other types.
bool has_residual_kernel(bool sums_alike, bool branches_alike, const Tensor& sum, const Tensor& branch) {
  return sums_alike && branches_alike && (sum.dtype() == DType::f32 || sum.dtype() == branch.dtype());
}

// Calls visit(TypeTag<R>{}) with the type of the residual beside a branch of type S.
template <class S, class Visit>
void visit_residual(const Tensor& sum, Visit&& visit) {
  sum.dtype() == DType::f32 ? visit(TypeTag<float>{}) : visit(TypeTag<S>{});
}

}  // namespace

void CudaNorm::layer_norm(const RowNormForward& args) {
  const auto& [x, gamma, beta, y, mean, rstd, eps, groups] = args;
  if (x.numel() == 0) return;
  const ColumnTypes types = column_types({&x, &y}, x.numel() / rstd.numel());
  const bool done = norm_in_registers(backend, args, types, [&]<class S>(TypeTag<S>, const auto& launch) {
    launch(PlainRows<S>{args.x.data<S>()});
  });
  if (!done) norm_of_any(backend, args, types.compute);
}

void CudaNorm::layer_norm_backward(const RowNormBackward& args) {
  if (is_empty(backend, args)) return;
  const Index width = args.x.numel() / args.rstd.numel();
  const ColumnTypes types = column_types({&args.x, &args.dy, &args.dx}, width);
  const bool done = gradients_in_registers(
      backend, args, types,
      [&]<class S>(TypeTag<S>, const auto& launch) { launch(PlainGradients<S>{data_or_null<S>(args.dx)}); });
  if (!done) gradients_of_any(backend, args, types.compute);
}

void CudaNorm::residual_norm(const ResidualNormForward& args) {
  const Tensor &sum = args.norm.x, &y = args.norm.y;
  const Index count = sum.numel();
  if (count == 0) return;
  const Index width = count / args.norm.rstd.numel();
  const RowDropout dropout = dropout_of(args.key, args.p);
  ColumnTypes types = column_types({&sum, &args.residual, &args.branch, &y}, width);
  types.packed = has_residual_kernel(alike({&sum, &args.residual}, width), alike({&args.branch, &y}, width),
                                     sum, args.branch);
  const bool done =
      norm_in_registers(backend, args.norm, types, [&]<class S>(TypeTag<S>, const auto& launch) {
        visit_residual<S>(sum, [&]<class R>(TypeTag<R>) {
          launch(ResidualRows<R, S>{args.residual.data<R>(), args.branch.data<S>(), sum.data<R>(), dropout});
        });
      });
  if (done) return;
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("residual_norm", residual_sum_any_kernel<T>, blocks_for(count, kThreads), kThreads,
                 backend.stream(), slot_of(args.residual), slot_of(args.branch), slot_of(sum), dropout,
                 count);
  });
  norm_of_any(backend, args.norm, types.compute);
}

void CudaNorm::residual_norm_backward(const ResidualNormBackward& args) {
  const RowNormBackward& norm = args.norm;
  if (is_empty(backend, norm)) return;
  const Index count = norm.x.numel(), width = count / norm.rstd.numel();
  const RowDropout dropout = dropout_of(args.key, args.p);
  ColumnTypes types = column_types({&norm.x, &norm.dy, &norm.dx, &args.dsum, &args.dbranch}, width);
  types.packed = has_residual_kernel(alike({&norm.x, &norm.dx, &args.dsum}, width),
                                     alike({&norm.dy, &args.dbranch}, width), norm.x, norm.dy);
  const bool done =
      gradients_in_registers(backend, norm, types, [&]<class S>(TypeTag<S>, const auto& launch) {
        visit_residual<S>(norm.x, [&]<class R>(TypeTag<R>) {
          launch(ResidualGradients<R, S>{data_or_null<R>(args.dsum), norm.dx.data<R>(),
                                         data_or_null<S>(args.dbranch), dropout});
        });
      });
  if (done) return;
  RowNormBackward through = norm;
  through.dx = backend.workspace(norm.x.shape(), types.compute);
  gradients_of_any(backend, through, types.compute);
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("residual_norm_backward", residual_gradients_any_kernel<T>, blocks_for(count, kThreads),
                 kThreads, backend.stream(), through.dx.data<T>(), slot_of(args.dsum), slot_of(norm.dx),
                 slot_of(args.dbranch), dropout, count);
  });
}

}  // namespace tandem::cuda
