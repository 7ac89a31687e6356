// Element types in kernels: conversions with the bits of core/convert.h, arrays of a type known at run time,
// and 16-byte accesses.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace tandem::cuda {

template <class T>
inline constexpr bool is_half_v = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

__device__ __forceinline__ float widen(Half value) { return __half2float(__ushort_as_half(value.bits)); }
__device__ __forceinline__ float widen(BFloat16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}
__device__ __forceinline__ void narrow(float value, Half& result) {
  result.bits = __half_as_ushort(__float2half_rn(value));
}
__device__ __forceinline__ void narrow(float value, BFloat16& result) {
  result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

// Rounds to odd: the float then rounds to 16 bits exactly as `value` would. Rounds towards zero and sets the
// last bit if inexact (Boldo and Melquiond 2008).
__device__ __forceinline__ float round_to_odd(double value) {
  const float towards_zero = __double2float_rz(value);
  const bool exact = static_cast<double>(towards_zero) == value || value != value;
  return exact ? towards_zero : __uint_as_float(__float_as_uint(towards_zero) | 1u);
}
__device__ __forceinline__ float round_to_odd(std::int64_t value) {
  std::uint64_t size = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const float towards_zero = __ull2float_rz(size);
  const bool exact = static_cast<std::uint64_t>(towards_zero) == size;
  const float odd = exact ? towards_zero : __uint_as_float(__float_as_uint(towards_zero) | 1u);
  return value < 0 ? -odd : odd;
}

// Like convert() of core/convert.h. Hardware conversions from floating to integral types truncate and
// saturate; those to 8 bits go through 32 bits.
template <class To, class From>
__device__ __forceinline__ To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half_v<From>) {
    return convert<To>(widen(value));
  } else if constexpr (is_half_v<To>) {
    To result;
    if constexpr (std::is_same_v<From, double>) {
      narrow(round_to_odd(value), result);
    } else if constexpr (std::is_integral_v<From> && sizeof(From) >= 4) {
      narrow(round_to_odd(std::int64_t{value}), result);
    } else {
      narrow(static_cast<float>(value), result);
    }
    return result;
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (value != value) return To(0);
    if constexpr (sizeof(To) == 1) {
      return value <= From(0)     ? To(0)
             : value >= From(255) ? To(255)
                                  : static_cast<To>(static_cast<int>(value));
    } else if constexpr (sizeof(To) == 4) {
      return std::is_same_v<From, float> ? __float2int_rz(static_cast<float>(value))
                                         : __double2int_rz(static_cast<double>(value));
    } else {
      return std::is_same_v<From, float> ? __float2ll_rz(static_cast<float>(value))
                                         : __double2ll_rz(static_cast<double>(value));
    }
  } else {
    return static_cast<To>(value);
  }
}

// `value` rounded to f16 or bf16.
__device__ __forceinline__ float rounded(float value, DType dtype) {
  return dtype == DType::f16 ? widen(convert<Half>(value)) : widen(convert<BFloat16>(value));
}

// Loads an element in its compute type; store() rounds.
template <class T>
__device__ __forceinline__ ComputeType<T> load(const T* address) {
  return convert<ComputeType<T>>(*address);
}
template <class T, class C>
__device__ __forceinline__ void store(T* address, C value) {
  *address = convert<T>(value);
}

// Loads an element of a storage type known at run time, for kernels with little traffic or mixed types.
template <class C>
__device__ __forceinline__ C load_any(const void* data, DType dtype, Index i) {
  return visit_dtype(dtype, [&]<class S>(TypeTag<S>) { return convert<C>(static_cast<const S*>(data)[i]); });
}
template <class C>
__device__ __forceinline__ void store_any(void* data, DType dtype, Index i, C value) {
  visit_dtype(dtype, [&]<class S>(TypeTag<S>) { static_cast<S*>(data)[i] = convert<S>(value); });
}

// An array of a type known at run time; `data` may be null.
struct Slot {
  void* data = nullptr;
  DType dtype = DType::f32;
};
inline Slot slot_of(const Tensor& t) { return t.defined() ? Slot{t.raw(), t.dtype()} : Slot{}; }

inline bool is_aligned(const void* address, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

// The word type for accesses of kBytes bytes, a power of two up to 16.
template <std::size_t kBytes>
using MemoryWord =
    std::tuple_element_t<std::bit_width(kBytes) - 1,
                         std::tuple<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, uint4>>;

// N elements that are read and written at once; 16 bytes per thread is the most efficient size.
template <class T, int N = 16 / sizeof(T)>
struct alignas(sizeof(T) * N) Pack {
  static constexpr int kSize = N;
  T value[N];
};

// The data of a tensor, or null if it is undefined.
template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace tandem::cuda
