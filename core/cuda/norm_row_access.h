// Sources and targets of the rows of layer norm's kernels (norm_rows.cu): plain memory, or the residual sum
// and its gradients with dropout of the branch.
#pragma once

#include "core/cuda/numeric.h"
#include "core/kernels/philox.h"
#include "core/random.h"

namespace tandem::cuda {

constexpr int kWidth = 8;  // elements per thread

// Dropout of eight elements, with the mask of core/cuda/random.cu.
struct RowDropout {
  RandomKey key;
  std::uint64_t threshold = 0;  // an element is kept if its word is at least this
  float scale = 1.0f;
  double exact_scale = 1.0;  // for f64

  // `first`: position of the elements in memory, a multiple of four.
  __device__ __forceinline__ void apply(Index first, float (&value)[kWidth]) const {
    if (threshold == 0) return;
    const RandomKey now = kernels::resolved(key);
#pragma unroll
    for (int j = 0; j < kWidth; j += 4) {
      const auto block = kernels::philox(now, static_cast<std::uint32_t>((first + j) / 4));
#pragma unroll
      for (int w = 0; w < 4; ++w) value[j + w] = block.word[w] >= threshold ? value[j + w] * scale : 0.0f;
    }
  }
  // Of one element.
  template <class T>
  __device__ __forceinline__ T of(Index element, T value) const {
    if (threshold == 0) return value;
    const auto block = kernels::philox(kernels::resolved(key), static_cast<std::uint32_t>(element / 4));
    return block.word[element % 4] >= threshold
               ? value * (sizeof(T) == sizeof(double) ? static_cast<T>(exact_scale) : static_cast<T>(scale))
               : T(0);
  }
};

// Source of forward's rows: x, or the sum of residual and branch, which it stores. `near` is its first
// element, from which differences are taken.
template <class S>
struct PlainRows {
  using Element = S;
  const S* x;
  __device__ __forceinline__ float near(Index start) const { return load(x + start); }
  __device__ __forceinline__ Pack<S, kWidth> read(Index at, bool) const {
    return *reinterpret_cast<const Pack<S, kWidth>*>(x + at);
  }
};

template <class R, class S>
struct ResidualRows {
  using Element = R;
  const R* residual;
  const S* branch;
  R* sum;
  RowDropout dropout;
  __device__ __forceinline__ float near(Index start) const {
    R first;
    store(&first, load(residual + start) + dropout.of(start, load(branch + start)));
    return load(&first);
  }
  __device__ __forceinline__ Pack<R, kWidth> read(Index at, bool store_sum) const {
    auto values = *reinterpret_cast<const Pack<R, kWidth>*>(residual + at);
    const auto added = *reinterpret_cast<const Pack<S, kWidth>*>(branch + at);
    float wide[kWidth];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) wide[j] = load(&added.value[j]);
    dropout.apply(at, wide);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) store(&values.value[j], load(&values.value[j]) + wide[j]);
    if (store_sum) *reinterpret_cast<Pack<R, kWidth>*>(sum + at) = values;
    return values;
  }
};

// Target of backward's gradient of a row: dx, or with dsum added that of the residual, and dropped
// out as that of the branch.
template <class S>
struct PlainGradients {
  using Element = S;
  S* dx;
  __device__ __forceinline__ bool wanted() const { return dx != nullptr; }
  __device__ __forceinline__ void write(Index at, float (&value)[kWidth]) const {
    Pack<S, kWidth> out;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) store(&out.value[j], value[j]);
    *reinterpret_cast<Pack<S, kWidth>*>(dx + at) = out;
  }
};

template <class R, class S>
struct ResidualGradients {
  using Element = R;
  const R* dsum;  // may be null, or dx
  R* dx;
  S* dbranch;  // may be null
  RowDropout dropout;
  __device__ __forceinline__ bool wanted() const { return true; }
  __device__ __forceinline__ void write(Index at, float (&value)[kWidth]) const {
    if (dsum != nullptr) {
      const auto other = *reinterpret_cast<const Pack<R, kWidth>*>(dsum + at);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) value[j] += load(&other.value[j]);
    }
    PlainGradients<R>{dx}.write(at, value);
    if (dbranch == nullptr) return;
    dropout.apply(at, value);
    PlainGradients<S>{dbranch}.write(at, value);
  }
};

}  // namespace tandem::cuda
