// Integer division in kernels by divisors known at launch.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "core/shape.h"

namespace tandem::cuda {

// Division by a number known at launch; 32-bit numerators must be below 2^31 (Granlund and Montgomery,
// "Division by invariant integers using multiplication", 1994).
template <class Int>
struct Divider;

template <>
struct Divider<std::uint32_t> {
  std::uint32_t divisor = 1, multiplier = 1, shift = 0;

  Divider() = default;
  explicit Divider(Index value) : divisor(static_cast<std::uint32_t>(value)) {
    shift = static_cast<std::uint32_t>(std::bit_width(divisor - 1));
    const std::uint64_t excess = (std::uint64_t{1} << shift) - divisor;
    multiplier = static_cast<std::uint32_t>((excess << 32) / divisor + 1);
  }
  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t n) const {
    return (__umulhi(n, multiplier) + n) >> shift;
  }
};

template <>
struct Divider<std::uint64_t> {
  std::uint64_t divisor = 1;

  Divider() = default;
  explicit Divider(Index value) : divisor(static_cast<std::uint64_t>(value)) {}
  __device__ __forceinline__ std::uint64_t quotient(std::uint64_t n) const { return n / divisor; }
};

}  // namespace tandem::cuda
