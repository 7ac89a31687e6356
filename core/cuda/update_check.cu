// Checks and decision of a step: non-finite losses and gradients, norms, and loss scales.
//
// A pass over gradients writes one result per block; one block adds these in a fixed order. Sums are f64. A
// check is bound by memory, 4 bytes per element.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "core/cuda/block_reduce.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/cuda/update_ranges.h"
#include "core/error.h"
#include "core/kernels/loss_scale.h"
#include "core/kernels/rounding.h"
#include "core/kernels/step.h"

namespace tandem::cuda {

namespace {

// ---- Statistics of gradients

struct Gathered {
  double squares, greatest;
  unsigned bad;
};

struct Greater {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// Reduction by all threads of a block.
__device__ __forceinline__ void gather(double squares, double greatest, unsigned bad, Gathered& result) {
  __shared__ double doubles[kWarp];
  __shared__ unsigned counts[kWarp];
  squares = block_reduce(squares, 0.0, doubles, Sum{});
  greatest = block_reduce(greatest, 0.0, doubles, Greater{});
  bad = block_reduce(bad, 0u, counts, Sum{});
  if (threadIdx.x == 0) result = {squares, greatest, bad};
}

template <class T, bool kMagnitude>
__global__ void __launch_bounds__(kThreads)
    check_kernel(const __grid_constant__ Chunk chunk, const T* x, bool packs, double divisor, bool unscaled,
                 const ScaleState* scale, Gathered* gathered) {
  await_earlier_work();
  ScaleState from;
  if (!unscaled) from.value = scale->value;
  const T of_step = static_cast<T>(kernels::unscale_factor(from, divisor, unscaled));
  constexpr T kGreatest = std::numeric_limits<T>::max();
  double squares = 0.0;
  T greatest = 0;
  unsigned bad = 0;
  for (int p = blockIdx.x; p < chunk.pieces; p += gridDim.x) {
    const Piece piece = piece_of(chunk, p);
    if (!any_marked(chunk, piece)) continue;
    const T factor = kernels::factor_of_range(of_step, chunk.gradient_log2[piece.range]);
    walk<Pack<T>::kSize>(piece, packs, [&](auto width, Index i) {
      constexpr int kWidth = width();
      const Pack<T, kWidth> values = fetch<kWidth>(x + i);
#pragma unroll
      for (const T element : values.value) {
        const T value = element * factor;
        squares += static_cast<double>(value) * static_cast<double>(value);
        const T size = std::abs(value);
        const bool finite = size <= kGreatest;
        bad += !finite;
        if constexpr (kMagnitude) greatest = finite && size > greatest ? size : greatest;
      }
    });
  }
  gather(squares, static_cast<double>(greatest), bad, gathered[blockIdx.x]);
}

__device__ __forceinline__ std::int32_t saturating_sum(std::int32_t count, unsigned long long more) {
  constexpr unsigned long long kMost = std::numeric_limits<std::int32_t>::max();
  const unsigned long long sum = static_cast<unsigned long long>(count) + more;
  return static_cast<std::int32_t>(sum < kMost ? sum : kMost);
}

// One block: adds the results of a pass's blocks to the state. `attributed` is the loss scale to which
// overflows are attributed, or null.
__global__ void __launch_bounds__(kThreads)
    gathered_kernel(const Gathered* gathered, int count, StepState* state, ScaleState* attributed) {
  await_earlier_work();
  __shared__ double doubles[kWarp];
  __shared__ unsigned long long counts[kWarp];
  double squares = 0.0, greatest = 0.0;
  unsigned long long bad = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    squares += gathered[i].squares;
    greatest = Greater{}(greatest, gathered[i].greatest);
    bad += gathered[i].bad;
  }
  squares = block_reduce(squares, 0.0, doubles, Sum{});
  greatest = block_reduce(greatest, 0.0, doubles, Greater{});
  bad = block_reduce(bad, 0ull, counts, Sum{});
  if (threadIdx.x != 0) return;
  state->sum_of_squares += squares;
  state->amax = Greater{}(state->amax, greatest);
  state->non_finite = saturating_sum(state->non_finite, bad);
  if (attributed != nullptr && bad != 0) ++attributed->found_inf;
}

__global__ void __launch_bounds__(kThreads)
    unscale_kernel(const __grid_constant__ Chunk chunk, const float* x, float* y, bool packs, double divisor,
                   bool add, const ScaleState* scale, Gathered* gathered) {
  await_earlier_work();
  ScaleState from;
  from.value = scale->value;
  const float of_step = static_cast<float>(kernels::unscale_factor(from, divisor, false));
  unsigned bad = 0;
  for (int p = blockIdx.x; p < chunk.pieces; p += gridDim.x) {
    const Piece piece = piece_of(chunk, p);
    if (!any_marked(chunk, piece)) continue;
    const float factor = kernels::factor_of_range(of_step, chunk.gradient_log2[piece.range]);
    walk<4>(piece, packs, [&](auto width, Index i) {
      constexpr int kWidth = width();
      Pack<float, kWidth> values = fetch<kWidth>(x + i), sums{};
      if (add) sums = fetch<kWidth>(static_cast<const float*>(y) + i);
#pragma unroll
      for (int l = 0; l < kWidth; ++l) {
        const float value = values.value[l] * factor;
        bad += !std::isfinite(value);
        values.value[l] = add ? sums.value[l] + value : value;
      }
      put<kWidth>(y + i, values);
    });
  }
  gather(0.0, 0.0, bad, gathered[blockIdx.x]);
}

// Writes only repaired elements.
__global__ void __launch_bounds__(kThreads)
    sanitize_kernel(const __grid_constant__ Chunk chunk, float* x, bool packs, float floor,
                    const ScaleState* scale) {
  await_earlier_work();
  const bool at_floor = scale->value <= floor;
  for (int p = blockIdx.x; p < chunk.pieces; p += gridDim.x) {
    const Piece piece = piece_of(chunk, p);
    if (!any_marked(chunk, piece)) continue;
    walk<4>(piece, packs, [&](auto width, Index i) {
      constexpr int kWidth = width();
      Pack<float, kWidth> values = fetch<kWidth>(static_cast<const float*>(x) + i);
      bool repaired = false;
#pragma unroll
      for (float& value : values.value) {
        if (std::isfinite(value)) continue;
        if (std::isinf(value)) {
          value = std::copysign(kernels::kGreatestF16, value);
          repaired = true;
        } else if (at_floor) {
          value = 0.0f;
          repaired = true;
        }
      }
      if (repaired) put<kWidth>(x + i, values);
    });
  }
}

// ---- Single-thread kernels

template <class T>
__global__ void accumulate_loss_kernel(const T* loss, double weight, StepState* state, ScaleState* scale) {
  await_earlier_work();
  state->loss_sum += static_cast<double>(*loss) * weight;
  if (std::isfinite(*loss)) return;
  ++state->forward_non_finite;
  ++scale->forward_non_finite;
}

__global__ void decide_step_kernel(StepRules rules, const double* table, std::int64_t entries,
                                   StepState* state, ScaleState* scale) {
  await_earlier_work();
  kernels::decide_step(rules, table, entries, *state, *scale);
}

__global__ void update_scale_kernel(ScaleRules rules, ScaleState* scale) {
  await_earlier_work();
  kernels::update_scale(rules, *scale);
}

}  // namespace

void CudaUpdate::accumulate_loss(const Tensor& loss, double weight, const Tensor& state,
                                 const Tensor& scale) {
  ScaleState* const to = scale_of(scale);
  visit_compute(loss.dtype(), [&]<class T>(TypeTag<T>) {
    launch_early("accumulate_loss", accumulate_loss_kernel<T>, 1, 1, backend.stream(), loss.data<T>(), weight,
                 state_of(state), to);
  });
}

void CudaUpdate::check_gradients(const Tensor& gradient, std::span<const UpdateRange> ranges,
                                 const GradientCheck& rules, const Tensor& state, const Tensor& scale) {
  StepState* const step = state_of(state);
  const ScaleState* const from = rules.unscaled ? nullptr : scale_of(scale);
  const auto run = [&]<class T>(TypeTag<T>) {
    const T* const x = gradient.data<T>();
    for_chunks(ranges, gradient.numel(), [&](const Chunk& chunk, std::span<const UpdateRange>) {
      if (chunk.pieces == 0) return;
      const unsigned blocks = blocks_for(chunk.pieces, 1);
      auto* const gathered = static_cast<Gathered*>(backend.update_room(blocks * sizeof(Gathered)));
      launch_early("check_gradients", rules.magnitude ? check_kernel<T, true> : check_kernel<T, false>,
                   blocks, kThreads, backend.stream(), chunk, x, is_aligned(x), rules.divisor, rules.unscaled,
                   from, gathered);
      launch_early("check_gradients", gathered_kernel, 1, kThreads, backend.stream(), gathered,
                   static_cast<int>(blocks), step, nullptr);
    });
  };
  visit_compute(gradient.dtype(), run);
}

void CudaUpdate::unscale(const Tensor& gradient, std::span<const UpdateRange> ranges,
                         const UnscaleOptions& options, const Tensor& target, const Tensor& state,
                         const Tensor& scale) {
  ScaleState* const from = scale_of(scale);
  StepState* const step = state_of(state);
  const float* const x = gradient.data<float>();
  float* const y = target.data<float>();
  for_chunks(ranges, gradient.numel(), [&](const Chunk& chunk, std::span<const UpdateRange>) {
    if (chunk.pieces == 0) return;
    const unsigned blocks = blocks_for(chunk.pieces, 1);
    auto* const gathered = static_cast<Gathered*>(backend.update_room(blocks * sizeof(Gathered)));
    launch_early("unscale", unscale_kernel, blocks, kThreads, backend.stream(), chunk, x, y,
                 is_aligned(x) && is_aligned(y), options.divisor, options.add, from, gathered);
    launch_early("unscale", gathered_kernel, 1, kThreads, backend.stream(), gathered,
                 static_cast<int>(blocks), step, options.attribute ? from : nullptr);
  });
}

void CudaUpdate::sanitize(const Tensor& gradient, std::span<const UpdateRange> ranges, float floor,
                          const Tensor& scale) {
  const ScaleState* const from = scale_of(scale);
  float* const x = gradient.data<float>();
  for_chunks(ranges, gradient.numel(), [&](const Chunk& chunk, std::span<const UpdateRange>) {
    if (chunk.pieces == 0) return;
    launch_early("sanitize", sanitize_kernel, blocks_for(chunk.pieces, 1), kThreads, backend.stream(), chunk,
                 x, is_aligned(x), floor, from);
  });
}

void CudaUpdate::decide_step(const StepRules& rules, const Tensor& lr_table, const Tensor& state,
                             const Tensor& scale) {
  ensure(lr_table.numel() >= 2, "decide_step",
         "the table of learning rates needs a base and one entry, got {}", to_string(lr_table));
  launch_early("decide_step", decide_step_kernel, 1, 1, backend.stream(), rules, lr_table.data<double>(),
               lr_table.numel() - 1, state_of(state), scale_of(scale));
}

void CudaUpdate::update_scale(const ScaleRules& rules, const Tensor& scale) {
  launch_early("update_scale", update_scale_kernel, 1, 1, backend.stream(), rules, scale_of(scale));
}

}  // namespace tandem::cuda
