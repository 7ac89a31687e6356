// Workspace, block loads and stores that convert any dtype to the compute type, and the threshold for using
// threads.
#pragma once

#include "core/cpu/kernels/simd.h"
#include "core/cpu/parallel.h"
#include "core/tensor.h"

namespace tandem::cpu::TANDEM_LEVEL {

// Elements per block. The operands of one block fit in L1.
inline constexpr Index kBlock = 1024;

// Minimum number of elements for a multi-threaded kernel.
inline constexpr Index kParallelElements = 32768;

template <class S>
inline constexpr bool is_16bit_v = std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>;

inline Tensor workspace(const Shape& shape, DType dtype) {
  return Tensor::empty(shape, {.dtype = dtype, .kind = MemoryKind::workspace});
}
template <class T>
Tensor workspace(const Shape& shape) {
  return workspace(shape, dtype_of<T>());
}

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

// Elements [first, first + count) as T: in place if stored as T, else converted into `buffer`.
template <class T>
const T* fetch(const Tensor& x, Index first, Index count, T* buffer) {
  if (x.dtype() == dtype_of<T>()) return x.data<T>() + first;
  load_block(x.raw(), x.dtype(), first, buffer, count);
  return buffer;
}

// y ← y + x; x is overwritten by the sum.
template <class T>
void add_block(T* x, void* y, DType dtype, Index first, Index count);

// Calls body(part, parts) for parts whose number depends only on the amount of work and the size of the team.
template <class Body>
void on_team(Index elements, const Body& body) {
  if (elements < kParallelElements) return body(0, 1);
  const int parts = threads();
  parallel_shares(parts, parts, [&](Index part) { body(static_cast<int>(part), parts); });
}
inline int team_size(Index elements) { return elements < kParallelElements ? 1 : threads(); }

}  // namespace tandem::cpu::TANDEM_LEVEL
