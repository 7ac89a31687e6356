// Writing passes over columns (norm_columns.h): y = act((x-mean)·scale + offset + residual) with the mask,
// and the gradients. They start with the rows that the reduction pass (norm_columns.cu) read last, and use
// streaming stores for large tensors, so that cached rows of x are not read twice from memory. They run in
// many small blocks (16 or more rows per thread) that finish at nearly the same time.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>

#include "core/cuda/launch.h"
#include "core/cuda/norm_columns.h"
#include "core/cuda/numeric.h"
#include "core/kernels/formulas.h"

namespace tandem::cuda {

namespace {

constexpr int kWidth = kColumnWidth;
constexpr std::size_t kLargeBytes = 16u << 20u;  // minimum output size for streaming stores

// Rows per batch: two 16-byte accesses of x and as many of dy (or of the residual) are in flight.
template <class S>
inline constexpr int kForwardRows = is_half_v<S> ? 4 : 2;
template <class S>
inline constexpr int kBackwardRows = is_half_v<S> ? 2 : 1;

// The 16-byte words of a pack, for accesses with an evict-first cache hint.
template <class P>
struct Words {
  static constexpr int count = sizeof(P) / sizeof(int4);
  int4 word[count];
};
template <class P>
__device__ __forceinline__ P load_last(const P* address) {
  Words<P> words;
#pragma unroll
  for (int i = 0; i < Words<P>::count; ++i)
    words.word[i] = __ldcs(reinterpret_cast<const int4*>(address) + i);
  return std::bit_cast<P>(words);
}
template <class P>
__device__ __forceinline__ void store_pack(P* address, const P& value, bool around_cache) {
  if (!around_cache) {
    *address = value;
    return;
  }
  const auto words = std::bit_cast<Words<P>>(value);
#pragma unroll
  for (int i = 0; i < Words<P>::count; ++i) __stcs(reinterpret_cast<int4*>(address) + i, words.word[i]);
}

// The chunks of a block, numbered from the last, where the reduction pass ended.
struct ChunkRange {
  Index first, last;
};
__device__ __forceinline__ ChunkRange chunks_from_the_end(const ColumnPlan& p) {
  const Index first = (p.slices - 1 - blockIdx.y) * p.per_slice;
  return {first, min(first + p.per_slice, p.chunks)};
}

// Row u of a thread's batch, clamped to the last row: loads need no branch, and excess values are ignored.
__device__ __forceinline__ Index row_or_last(const ColumnPlan& p, Index row, int u) {
  return min(row + Index{u} * p.lanes, p.rows - 1);
}

template <int N>
__device__ __forceinline__ void load_coefficients(const float* from, Index stride, float (&to)[N][kWidth]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const auto pack = *reinterpret_cast<const Pack<float, kWidth>*>(from + k * stride);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) to[k][j] = pack.value[j];
  }
}

template <class S, bool kResidual>
__global__ void __launch_bounds__(kThreads, 3)
    forward_kernel(const S* x, const S* residual, S* y, std::uint8_t* mask, const float* coefficients,
                   ColumnPlan p, bool relu, bool around_cache) {
  await_earlier_work();
  using Values = Pack<S, kWidth>;
  constexpr int R = kForwardRows<S>;
  const auto [lane, channel, active] = place_of(p);
  if (!active) return;
  const auto [first, last] = chunks_from_the_end(p);
  const Index step = p.lanes * p.channels;
  for (Index sample = blockIdx.z; sample < p.samples; sample += gridDim.z) {
    float of[3][kWidth];  // centre, scale, offset
    load_coefficients(coefficients + sample * 3 * p.channels + channel, p.channels, of);
    const Index base = sample * p.rows * p.channels + channel;
    for (Index chunk = last - 1; chunk >= first; --chunk) {
      const Index row = chunk * p.chunk + lane, at = base + row * p.channels;
      Values in[R], other[R];
#pragma unroll
      for (int u = 0; u < R; ++u) {
        const Index from = base + row_or_last(p, row, u) * p.channels;
        in[u] = load_last(reinterpret_cast<const Values*>(x + from));
        if constexpr (kResidual) other[u] = load_last(reinterpret_cast<const Values*>(residual + from));
      }
#pragma unroll
      for (int u = 0; u < R; ++u) {
        if (row + u * p.lanes >= p.rows) continue;
        unsigned bits = 0;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          float v = (load(&in[u].value[j]) - of[0][j]) * of[1][j] + of[2][j];
          if constexpr (kResidual) v += load(&other[u].value[j]);
          bits |= static_cast<unsigned>(v > 0.0f) << j;
          if (relu) v = formulas::Relu::eval(formulas::Constants<float>{}, v);
          store(&in[u].value[j], v);
        }
        store_pack(reinterpret_cast<Values*>(y + at + u * step), in[u], around_cache);
        if (mask != nullptr) mask[(at + u * step) / kWidth] = static_cast<std::uint8_t>(bits);
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, 3)
    backward_kernel(const S* x, const S* dy, S* dx, S* dresidual, const std::uint8_t* mask,
                    const float* centres, const float* coefficients, ColumnPlan p, bool accumulate_dx,
                    bool accumulate_dresidual, bool around_cache) {
  await_earlier_work();
  using Values = Pack<S, kWidth>;
  constexpr int R = kBackwardRows<S>;
  const auto [lane, channel, active] = place_of(p);
  if (!active) return;
  const auto [first, last] = chunks_from_the_end(p);
  const Index step = p.lanes * p.channels;
  for (Index sample = blockIdx.z; sample < p.samples; sample += gridDim.z) {
    float of[3][kWidth], centre[1][kWidth];  // scale, slope, offset
    load_coefficients(coefficients + sample * 3 * p.channels + channel, p.channels, of);
    load_coefficients(centres + sample * p.channels + channel, 0, centre);
    const Index base = sample * p.rows * p.channels + channel;
    for (Index chunk = last - 1; chunk >= first; --chunk) {
      const Index row = chunk * p.chunk + lane, at = base + row * p.channels;
      Values in[R], gradient[R];
      unsigned bits[R];
      Index from[R];
#pragma unroll
      for (int u = 0; u < R; ++u) {
        from[u] = base + row_or_last(p, row, u) * p.channels;
        gradient[u] = load_last(reinterpret_cast<const Values*>(dy + from[u]));
        bits[u] = ~0u;
      }
      if (x != nullptr) {
#pragma unroll
        for (int u = 0; u < R; ++u) in[u] = load_last(reinterpret_cast<const Values*>(x + from[u]));
      }
      if (mask != nullptr) {
#pragma unroll
        for (int u = 0; u < R; ++u) bits[u] = mask[from[u] / kWidth];
      }
#pragma unroll
      for (int u = 0; u < R; ++u) {
        if (row + u * p.lanes >= p.rows) continue;
        float g[kWidth];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) g[j] = bits[u] >> j & 1u ? load(&gradient[u].value[j]) : 0.0f;
        if (dresidual != nullptr) {
          auto* to = reinterpret_cast<Values*>(dresidual + at + u * step);
          Values out = {};
          if (accumulate_dresidual) out = *to;
#pragma unroll
          for (int j = 0; j < kWidth; ++j)
            store(&out.value[j], accumulate_dresidual ? load(&out.value[j]) + g[j] : g[j]);
          store_pack(to, out, around_cache);
        }
        if (dx != nullptr) {
          auto* to = reinterpret_cast<Values*>(dx + at + u * step);
          Values out = {};
          if (accumulate_dx) out = *to;
#pragma unroll
          for (int j = 0; j < kWidth; ++j) {
            float v = g[j] * of[0][j];
            if (x != nullptr) v += (load(&in[u].value[j]) - centre[0][j]) * of[1][j] + of[2][j];
            if (accumulate_dx) v += load(&out.value[j]);
            store(&out.value[j], v);
          }
          store_pack(to, out, around_cache);
        }
      }
    }
  }
}

// Generic path for any types and number of channels. A thread has eight adjacent elements, which share a mask
// byte. Calls each(element, its number in the group, sample, channel).
template <class Each>
__device__ __forceinline__ void over_eight(Index group, Index count, Index per_sample, Index channels,
                                           Each&& each) {
  const Index first = group * 8;
  Index sample = first / per_sample, left = (sample + 1) * per_sample - first, channel = first % channels;
  for (int j = 0; j < 8 && first + j < count; ++j) {
    each(first + j, j, sample, channel);
    if (++channel == channels) channel = 0;
    if (--left == 0) {
      ++sample;
      left = per_sample;
    }
  }
}

template <class T>
__global__ void forward_any_kernel(Slot x, Slot residual, Slot y, std::uint8_t* mask, const T* coefficients,
                                   Index count, Index per_sample, Index channels, bool relu) {
  await_earlier_work();
  const Index groups = (count + 7) / 8, stride = Index{gridDim.x} * blockDim.x;
  for (Index group = Index{blockIdx.x} * blockDim.x + threadIdx.x; group < groups; group += stride) {
    unsigned bits = 0;
    over_eight(group, count, per_sample, channels, [&](Index i, int j, Index sample, Index channel) {
      const T* of = coefficients + sample * 3 * channels + channel;
      T v = (load_any<T>(x.data, x.dtype, i) - of[0]) * of[channels] + of[2 * channels];
      if (residual.data != nullptr) v += load_any<T>(residual.data, residual.dtype, i);
      bits |= static_cast<unsigned>(v > T(0)) << j;
      if (relu) v = formulas::Relu::eval(formulas::Constants<T>{}, v);
      store_any(y.data, y.dtype, i, v);
    });
    if (mask != nullptr) mask[group] = static_cast<std::uint8_t>(bits);
  }
}

template <class T>
__global__ void backward_any_kernel(Slot x, Slot dy, Slot dx, Slot dresidual, const std::uint8_t* mask,
                                    const T* centres, const T* coefficients, Index count, Index per_sample,
                                    Index channels, bool accumulate_dx, bool accumulate_dresidual) {
  await_earlier_work();
  const Index groups = (count + 7) / 8, stride = Index{gridDim.x} * blockDim.x;
  for (Index group = Index{blockIdx.x} * blockDim.x + threadIdx.x; group < groups; group += stride) {
    const unsigned bits = mask != nullptr ? mask[group] : ~0u;
    over_eight(group, count, per_sample, channels, [&](Index i, int j, Index sample, Index channel) {
      const T* of = coefficients + sample * 3 * channels + channel;
      const T g = bits >> j & 1u ? load_any<T>(dy.data, dy.dtype, i) : T(0);
      T v = g * of[0];
      if (x.data != nullptr) {
        const T d = load_any<T>(x.data, x.dtype, i) - centres[sample * channels + channel];
        v += d * of[channels] + of[2 * channels];
      }
      if (dresidual.data != nullptr) {
        const T before = accumulate_dresidual ? load_any<T>(dresidual.data, dresidual.dtype, i) : T(0);
        store_any(dresidual.data, dresidual.dtype, i, accumulate_dresidual ? before + g : g);
      }
      if (dx.data != nullptr) {
        if (accumulate_dx) v += load_any<T>(dx.data, dx.dtype, i);
        store_any(dx.data, dx.dtype, i, v);
      }
    });
  }
}

ColumnPlan writing_plan(ColumnPlan p) {
  const Index blocks = p.chunks * p.column_blocks * p.samples;
  p.per_slice =
      std::clamp<Index>(blocks / (kProcessors * 8), 1, std::max<Index>(4, blocks / (kProcessors * 32)));
  p.slices = ceil_div(p.chunks, p.per_slice);
  return p;
}

}  // namespace

void write_forward(const ColumnForward& args, Index samples, Index rows, ColumnTypes types,
                   cudaStream_t stream) {
  const Index count = args.x.numel(), per_sample = count / samples, channels = per_sample / rows;
  if (types.packed) {
    return visit_below_f64(args.x.dtype(), [&]<class S>(TypeTag<S>) {
      const ColumnPlan plan = writing_plan(plan_columns(samples, rows, channels, true, kForwardRows<S>));
      const auto kernel = args.residual.defined() ? forward_kernel<S, true> : forward_kernel<S, false>;
      launch_early("norm: forward", kernel, grid_of(plan), kThreads, stream, args.x.data<S>(),
                   data_or_null<S>(args.residual), args.y.data<S>(), args.mask,
                   static_cast<const float*>(args.coefficients), plan, args.relu,
                   args.y.bytes() > kLargeBytes);
    });
  }
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("norm: forward", forward_any_kernel<T>, blocks_for(count, Index{kThreads} * 8), kThreads,
                 stream, slot_of(args.x), slot_of(args.residual), slot_of(args.y), args.mask,
                 static_cast<const T*>(args.coefficients), count, per_sample, channels, args.relu);
  });
}

void write_backward(const ColumnBackward& args, Index samples, Index rows, ColumnTypes types,
                    cudaStream_t stream) {
  const Index count = args.x.numel(), per_sample = count / samples, channels = per_sample / rows;
  const Tensor x = args.frozen || !args.dx.defined() ? Tensor{} : args.x;
  if (types.packed) {
    return visit_below_f64(args.x.dtype(), [&]<class S>(TypeTag<S>) {
      const ColumnPlan plan = writing_plan(plan_columns(samples, rows, channels, true, kBackwardRows<S>));
      launch_early("norm: backward", backward_kernel<S>, grid_of(plan), kThreads, stream, data_or_null<S>(x),
                   args.dy.data<S>(), data_or_null<S>(args.dx), data_or_null<S>(args.dresidual), args.mask,
                   static_cast<const float*>(args.centre), static_cast<const float*>(args.coefficients), plan,
                   args.accumulate_dx, args.accumulate_dresidual, args.x.bytes() > kLargeBytes);
    });
  }
  visit_compute(types.compute, [&]<class T>(TypeTag<T>) {
    launch_early("norm: backward", backward_any_kernel<T>, blocks_for(count, Index{kThreads} * 8), kThreads,
                 stream, slot_of(x), slot_of(args.dy), slot_of(args.dx), slot_of(args.dresidual), args.mask,
                 static_cast<const T*>(args.centre), static_cast<const T*>(args.coefficients), count,
                 per_sample, channels, args.accumulate_dx, args.accumulate_dresidual);
  });
}

}  // namespace tandem::cuda
