// Block loads and stores that convert any dtype to the compute type, and the threshold for using threads.
#pragma once

#include "core/cpu/kernels/simd.h"
#include "core/tensor.h"

namespace tandem::cpu::TANDEM_LEVEL {

// Elements per block. The operands of one block fit in L1.
inline constexpr Index kBlock = 1024;

// Minimum number of elements for a multi-threaded kernel.
inline constexpr Index kParallelElements = 32768;

template <class S>
inline constexpr bool is_16bit_v = std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>;

template <class S, class T>
void load_block(const S* x, T* y, Index count) {
  if constexpr (is_16bit_v<S> && std::is_same_v<T, float>) {
    widen_block(x, y, count);
  } else {
    for (Index i = 0; i < count; ++i) y[i] = convert<T>(x[i]);
  }
}

template <class T, class S>
void store_block(const T* x, S* y, Index count) {
  if constexpr (is_16bit_v<S> && std::is_same_v<T, float>) {
    narrow_block(x, y, count);
  } else {
    for (Index i = 0; i < count; ++i) y[i] = convert<S>(x[i]);
  }
}

// Elements [first, first + count) of a tensor's memory as T, and back: f32, f64 and i64 are compiled once
// (blocks.cpp).
template <class T>
void load_block(const void* x, DType dtype, Index first, T* y, Index count);
template <class T>
void store_block(const T* x, void* y, DType dtype, Index first, Index count);

// y ← y + x; x is overwritten by the sum.
template <class T>
void add_block(T* x, void* y, DType dtype, Index first, Index count);

// The half-open range of `count` items for part `part` of `parts`.
struct Range {
  Index first, last;
  Index count() const { return last - first; }
};
inline Range part_of(Index count, Index part, Index parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

}  // namespace tandem::cpu::TANDEM_LEVEL
