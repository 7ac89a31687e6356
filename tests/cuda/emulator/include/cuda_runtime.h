// CUDA's device language as C++: the keywords, vector types and intrinsics that core/cuda uses. block.cpp
// implements barriers and warp operations.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <source_location>

#define TANDEM_CUDA_EMULATED  // device code is compiled here

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__  // also appears in standard library attributes
#define __launch_bounds__(...)
#define __grid_constant__

// ---- Thread indices

namespace cuda_emulator {

extern uint3 thread_index, block_index;
extern dim3 block_extent, grid_extent;

using Where = std::source_location;

void block_barrier(const Where& where);
int block_barrier_count(bool counted, const Where& where);
void warp_barrier(unsigned mask, const Where& where);
// The value of lane `source`, after all lanes in `mask` have arrived.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned source, const Where& where);
unsigned ballot(unsigned mask, bool value, const Where& where);

// Address of a shared variable in the current block.
struct SharedPlace {
  std::uint64_t block = 0;  // serial number of the block that the address belongs to
  void* address = nullptr;
};
extern std::uint64_t block_serial;
void place_shared(SharedPlace& place, std::size_t bytes, std::size_t alignment, const Where& where);
void* dynamic_shared();

// The build rewrites `__shared__ T name;` to a call of this; each declaration has its own Site type.
template <class T, class Site>
T& shared(Site, const Where& where = Where::current()) {
  static SharedPlace place;
  if (place.block != block_serial) place_shared(place, sizeof(T), alignof(T), where);
  return *static_cast<T*>(place.address);
}

}  // namespace cuda_emulator

// Macros, because other classes have members with these names.
#define threadIdx (::cuda_emulator::thread_index)
#define blockIdx (::cuda_emulator::block_index)
#define blockDim (::cuda_emulator::block_extent)
#define gridDim (::cuda_emulator::grid_extent)
inline constexpr int warpSize = 32;

// ---- Vector types

#define CUDA_EMULATOR_VECTORS(T, name, two, four)            \
  struct alignas(two) name##2 {                              \
    T x, y;                                                  \
  };                                                         \
  struct alignas(four) name##4 {                             \
    T x, y, z, w;                                            \
  };                                                         \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_EMULATOR_VECTORS(unsigned char, uchar, 2, 4)
CUDA_EMULATOR_VECTORS(short, short, 4, 8)
CUDA_EMULATOR_VECTORS(unsigned short, ushort, 4, 8)
CUDA_EMULATOR_VECTORS(int, int, 8, 16)
CUDA_EMULATOR_VECTORS(unsigned, uint, 8, 16)
CUDA_EMULATOR_VECTORS(float, float, 8, 16)
CUDA_EMULATOR_VECTORS(double, double, 16, 16)
#undef CUDA_EMULATOR_VECTORS

// ---- Barriers and lanes

inline void __syncthreads(cuda_emulator::Where where = cuda_emulator::Where::current()) {
  cuda_emulator::block_barrier(where);
}
inline int __syncthreads_count(int value, cuda_emulator::Where where = cuda_emulator::Where::current()) {
  return cuda_emulator::block_barrier_count(value != 0, where);
}
inline int __syncthreads_or(int value, cuda_emulator::Where where = cuda_emulator::Where::current()) {
  return cuda_emulator::block_barrier_count(value != 0, where) != 0;
}
inline int __syncthreads_and(int value, cuda_emulator::Where where = cuda_emulator::Where::current()) {
  return cuda_emulator::block_barrier_count(value == 0, where) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       cuda_emulator::Where where = cuda_emulator::Where::current()) {
  cuda_emulator::warp_barrier(mask, where);
}
inline unsigned __ballot_sync(unsigned mask, int value,
                              cuda_emulator::Where where = cuda_emulator::Where::current()) {
  return cuda_emulator::ballot(mask, value != 0, where);
}
inline int __any_sync(unsigned mask, int value,
                      cuda_emulator::Where where = cuda_emulator::Where::current()) {
  return cuda_emulator::ballot(mask, value != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int value,
                      cuda_emulator::Where where = cuda_emulator::Where::current()) {
  return cuda_emulator::ballot(mask, value == 0, where) == 0;
}

namespace cuda_emulator {

unsigned lane();

template <class T>
T shuffled(unsigned mask, T value, unsigned source, const Where& where) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "__shfl takes words only");
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = shuffle(mask, word, source, where);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

}  // namespace cuda_emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              cuda_emulator::Where where = cuda_emulator::Where::current()) {
  const unsigned own = cuda_emulator::lane(), inside = static_cast<unsigned>(width - 1);
  return cuda_emulator::shuffled(mask, value, (own & ~inside) | (static_cast<unsigned>(source) & inside),
                                 where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32,
                  cuda_emulator::Where where = cuda_emulator::Where::current()) {
  const unsigned own = cuda_emulator::lane(), inside = static_cast<unsigned>(width - 1);
  const unsigned source = own ^ static_cast<unsigned>(distance);
  return cuda_emulator::shuffled(mask, value, source <= (own | inside) ? source : own, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 cuda_emulator::Where where = cuda_emulator::Where::current()) {
  const unsigned own = cuda_emulator::lane(), inside = static_cast<unsigned>(width - 1);
  return cuda_emulator::shuffled(mask, value, (own & inside) >= distance ? own - distance : own, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   cuda_emulator::Where where = cuda_emulator::Where::current()) {
  const unsigned own = cuda_emulator::lane(), inside = static_cast<unsigned>(width - 1);
  return cuda_emulator::shuffled(mask, value, (own & inside) + distance <= inside ? own + distance : own,
                                 where);
}

// ---- Early start

namespace cuda_emulator {
void await_earlier_grid();
}

inline void cudaGridDependencySynchronize() { cuda_emulator::await_earlier_grid(); }
inline void cudaTriggerProgrammaticLaunchCompletion() {}

// ---- Memory

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

#define CUDA_EMULATOR_LOAD(name)    \
  template <class T>                \
  inline T name(const T* address) { \
    return *address;                \
  }
CUDA_EMULATOR_LOAD(__ldg)
CUDA_EMULATOR_LOAD(__ldcs)
CUDA_EMULATOR_LOAD(__ldcg)
CUDA_EMULATOR_LOAD(__ldca)
CUDA_EMULATOR_LOAD(__ldlu)
#undef CUDA_EMULATOR_LOAD
#define CUDA_EMULATOR_STORE(name)                                      \
  template <class T>                                                   \
  inline void name(T* address, const std::type_identity_t<T>& value) { \
    *address = value;                                                  \
  }
CUDA_EMULATOR_STORE(__stcs)
CUDA_EMULATOR_STORE(__stcg)
CUDA_EMULATOR_STORE(__stwb)
CUDA_EMULATOR_STORE(__stwt)
#undef CUDA_EMULATOR_STORE

// Needs no atomics, because one thread runs at a time.
template <class T>
inline T atomicAdd(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  *address = old + value;
  return old;
}
template <class T>
inline T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, value);
}
template <class T>
inline T atomicMax(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  if (old < value) *address = value;
  return old;
}
template <class T>
inline T atomicMin(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  if (value < old) *address = value;
  return old;
}
template <class T>
inline T atomicOr(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  *address = old | value;
  return old;
}
template <class T>
inline T atomicAnd(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  *address = old & value;
  return old;
}
template <class T>
inline T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}
template <class T>
inline T atomicCAS_system(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return atomicCAS(address, expected, value);
}

// ---- Integers

inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}

// ---- Conversions: rz rounds towards zero; floating to integral truncates and saturates

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

inline float __double2float_rz(double x) {
  const float nearest = static_cast<float>(x);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(x) ? std::nextafterf(nearest, 0.0f) : nearest;
}
inline float __ull2float_rz(unsigned long long x) {
  const int excess = 64 - std::countl_zero(x) - 24;
  return static_cast<float>(excess > 0 ? x >> excess << excess : x);
}

namespace cuda_emulator {

// NaN is converted to `of_nan`.
template <class To, class From>
inline To truncated(From x, To of_nan) {
  constexpr From kAbove = static_cast<From>(0x1p31) * (sizeof(To) == 8 ? static_cast<From>(0x1p32) : From(1));
  if (x != x) return of_nan;
  return x >= kAbove   ? std::numeric_limits<To>::max()
         : x < -kAbove ? std::numeric_limits<To>::min()
                       : static_cast<To>(x);
}

}  // namespace cuda_emulator

inline int __float2int_rz(float x) { return cuda_emulator::truncated<int>(x, 0); }
inline int __double2int_rz(double x) {
  return cuda_emulator::truncated<int>(x, std::numeric_limits<int>::min());
}
inline long long __float2ll_rz(float x) {
  return cuda_emulator::truncated<long long>(x, std::numeric_limits<long long>::min());
}
inline long long __double2ll_rz(double x) {
  return cuda_emulator::truncated<long long>(x, std::numeric_limits<long long>::min());
}

// ---- Functions

template <class T>
requires std::is_arithmetic_v<T>
inline T min(T a, T b) { return b < a ? b : a; }
template <class T>
requires std::is_arithmetic_v<T>
inline T max(T a, T b) { return a < b ? b : a; }
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

inline float __expf(float x) { return std::exp2(x * 1.44269504f); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
