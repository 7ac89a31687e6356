// Random kernels. Element i uses word i % 4 of Philox block i / 4, for any dtype and thread. The arithmetic
// is that of core/cpu/kernels/random.cpp: uniform numbers and masks have the CPU's bits; normal ones differ
// at most by the f64 logarithm, sine and cosine before rounding.
//
// A thread computes whole blocks and stores 16 bytes at once.
#include <cuda_runtime.h>

#include <cmath>
#include <numbers>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/numeric.h"
#include "core/error.h"
#include "core/kernels/philox.h"
#include "core/kernels/random.h"

namespace tandem::cuda {

namespace {

constexpr int kWords = 4;  // per Philox block

// Elements per thread and iteration: whole Philox blocks, and whole packs of 16 bytes.
template <class T>
inline constexpr int kAtOnce = 16 / sizeof(T) > 4 ? 16 / static_cast<int>(sizeof(T)) : kWords;

template <class T>
__device__ __forceinline__ void load_run(const T* x, T* values) {
#pragma unroll
  for (int i = 0; i < kAtOnce<T>; i += Pack<T>::kSize) {
    const auto pack = *reinterpret_cast<const Pack<T>*>(x + i);
#pragma unroll
    for (int k = 0; k < Pack<T>::kSize; ++k) values[i + k] = pack.value[k];
  }
}
template <class T>
__device__ __forceinline__ void store_run(const T* values, T* y) {
#pragma unroll
  for (int i = 0; i < kAtOnce<T>; i += Pack<T>::kSize) {
    Pack<T> pack;
#pragma unroll
    for (int k = 0; k < Pack<T>::kSize; ++k) pack.value[k] = values[i + k];
    *reinterpret_cast<Pack<T>*>(y + i) = pack;
  }
}

// nextafter for both types; some compilers resolve the unqualified name to the double overload only.
__device__ __forceinline__ float next_to(float x, float to) { return ::nextafterf(x, to); }
__device__ __forceinline__ double next_to(double x, double to) { return ::nextafter(x, to); }

template <class C>
struct Uniform {
  C from, width, bound;

  __device__ __forceinline__ void operator()(const kernels::PhiloxBlock& block, C* values) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      // One rounding, like the fused multiply-add of the CPU's expression.
      const C value = std::fma(width, static_cast<C>(kernels::unit_float(block.word[i])), from);
      // Rounding may give the upper bound, which is excluded.
      values[i] = value < bound || !(from < bound) ? value : next_to(bound, from);
    }
  }
};

// Box-Muller: words 0 and 1 of a block give elements 0 and 1, words 2 and 3 the others.
template <class C>
struct Normal {
  double mean, stddev;

  __device__ __forceinline__ void operator()(const kernels::PhiloxBlock& block, C* values) const {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      const double u = (block.word[i] + 0.5) * 0x1p-32, v = (block.word[i + 1] + 0.5) * 0x1p-32;
      const double radius = stddev * ::sqrt(-2.0 * ::log(u));
      double sine, cosine;
      ::sincos(2.0 * std::numbers::pi * v, &sine, &cosine);
      values[i] = static_cast<C>(mean + radius * cosine);
      values[i + 1] = static_cast<C>(mean + radius * sine);
    }
  }
};

template <class T>
using RandomCompute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T, class Distribution>
__global__ void __launch_bounds__(kThreads)
    generate_kernel(RandomKey key, Distribution distribution, T* y, Index count, bool aligned) {
  await_earlier_work();
  constexpr int kRun = kAtOnce<T>;
  key = kernels::resolved(key);
  const Index step = Index{gridDim.x} * blockDim.x * kRun;
  for (Index i = (Index{blockIdx.x} * blockDim.x + threadIdx.x) * kRun; i < count; i += step) {
    T values[kRun];
#pragma unroll
    for (int k = 0; k < kRun; k += kWords) {
      RandomCompute<T> numbers[kWords];
      distribution(kernels::philox(key, static_cast<std::uint32_t>((i + k) / kWords)), numbers);
#pragma unroll
      for (int w = 0; w < kWords; ++w) store(values + k + w, numbers[w]);
    }
    if (aligned && count - i >= kRun) {
      store_run(values, y + i);
    } else {
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        if (i + k < count) y[i + k] = values[k];
      }
    }
  }
}

void check_count(Index count) {
  ensure(count <= Index{1} << 34, "random", "{} elements exceed the limit of 2^34 per key", count);
}

template <template <class> class Distribution, class... Parameters>
void generate(cudaStream_t stream, const RandomKey& key, const Tensor& y, Parameters... parameters) {
  const Index count = y.numel();
  check_count(count);
  if (count == 0) return;
  visit_dtype(y.dtype(), [&]<class T>(TypeTag<T>) {
    using C = RandomCompute<T>;
    const Distribution<C> distribution{parameters(TypeTag<C>{})...};
    launch_early("random", generate_kernel<T, Distribution<C>>,
                 blocks_for(count, Index{kThreads} * kAtOnce<T>), kThreads, stream, key, distribution,
                 y.data<T>(), count, is_aligned(y.raw()));
  });
}

// Keeps an element if its word is at least `threshold`, which is at most 2^32.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(RandomKey key, const T* x, T* y, Index count, std::uint64_t threshold,
                   ComputeType<T> scale, bool aligned) {
  await_earlier_work();
  using C = ComputeType<T>;
  constexpr int kRun = kAtOnce<T>;
  key = kernels::resolved(key);
  const Index step = Index{gridDim.x} * blockDim.x * kRun;
  for (Index i = (Index{blockIdx.x} * blockDim.x + threadIdx.x) * kRun; i < count; i += step) {
    const bool whole = aligned && count - i >= kRun;
    T values[kRun] = {};
    if (whole) {
      load_run(x + i, values);
    } else {
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        if (i + k < count) values[k] = x[i + k];
      }
    }
#pragma unroll
    for (int k = 0; k < kRun; k += kWords) {
      const auto block = kernels::philox(key, static_cast<std::uint32_t>((i + k) / kWords));
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        T* value = values + k + w;
        store(value, block.word[w] >= threshold ? load(value) * scale : C(0));
      }
    }
    if (whole) {
      store_run(values, y + i);
    } else {
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        if (i + k < count) y[i + k] = values[k];
      }
    }
  }
}

// Any types; a thread processes one Philox block.
template <class C>
__global__ void dropout_any_kernel(RandomKey key, const void* x, DType x_dtype, void* y, DType y_dtype,
                                   Index count, std::uint64_t threshold, C scale) {
  await_earlier_work();
  key = kernels::resolved(key);
  const Index step = Index{gridDim.x} * blockDim.x;
  for (Index b = Index{blockIdx.x} * blockDim.x + threadIdx.x; b * kWords < count; b += step) {
    const auto block = kernels::philox(key, static_cast<std::uint32_t>(b));
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const Index i = b * kWords + w;
      if (i >= count) break;
      const bool kept = block.word[w] >= threshold;
      store_any(y, y_dtype, i, kept ? load_any<C>(x, x_dtype, i) * scale : C(0));
    }
  }
}

struct CudaRandom final : GpuKernels<RandomKernels> {
  using GpuKernels::GpuKernels;

  void random_uniform(const RandomKey& key, const Tensor& y, double low, double high) override {
    const auto converted = [](double value) {
      return [value]<class C>(TypeTag<C>) { return static_cast<C>(value); };
    };
    generate<Uniform>(backend.stream(), key, y, converted(low), converted(high - low), converted(high));
  }

  void random_normal(const RandomKey& key, const Tensor& y, double mean, double stddev) override {
    const auto kept = [](double value) { return [value](auto) { return value; }; };
    generate<Normal>(backend.stream(), key, y, kept(mean), kept(stddev));
  }

  void dropout(const Tensor& x, const RandomKey& key, double p, const Tensor& y) override {
    const Index count = x.numel();
    check_count(count);
    if (count == 0) return;
    const auto threshold = static_cast<std::uint64_t>(std::llround(p * 0x1p32));
    const double scale = 1.0 / (1.0 - p);
    if (x.dtype() == y.dtype() && is_floating(x.dtype())) {
      return visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
        launch_early("dropout", dropout_kernel<T>, blocks_for(count, Index{kThreads} * kAtOnce<T>), kThreads,
                     backend.stream(), key, x.data<T>(), y.data<T>(), count, threshold,
                     static_cast<ComputeType<T>>(scale), is_aligned(x.raw()) && is_aligned(y.raw()));
      });
    }
    const auto run = [&]<class C>(TypeTag<C>) {
      launch_early("dropout", dropout_any_kernel<C>, blocks_for(count, Index{kThreads} * kWords), kThreads,
                   backend.stream(), key, x.raw(), x.dtype(), y.raw(), y.dtype(), count, threshold,
                   static_cast<C>(scale));
    };
    visit_compute(x.dtype(), run);
  }
};

}  // namespace

RandomKernels& CudaBackend::random() { return own<CudaRandom>(kernels_.random); }

}  // namespace tandem::cuda
