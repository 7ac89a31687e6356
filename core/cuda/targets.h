// Target classes of the losses on softmax.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>

#include "core/cuda/fault.h"
#include "core/error.h"
#include "core/tensor.h"

namespace tandem::cuda {

// The targets as i64, read from any integer dtype.
struct Targets {
  const void* data;
  DType dtype;
  bool has_ignored;
  Index ignored;
  Fault* fault;  // for targets outside [0, classes)

  __device__ __forceinline__ Index operator[](Index row) const {
    switch (dtype) {
      case DType::u8:
        return static_cast<const std::uint8_t*>(data)[row];
      case DType::i32:
        return static_cast<const std::int32_t*>(data)[row];
      default:
        return static_cast<const std::int64_t*>(data)[row];
    }
  }
  __device__ __forceinline__ bool ignores(Index target) const { return has_ignored && target == ignored; }
};

inline Targets targets_of(const Tensor& targets, std::optional<Index> ignored, Fault* fault) {
  const DType dtype = targets.dtype();
  ensure(dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u8, "softmax", "targets are {}",
         name_of(dtype));
  return {targets.raw(), dtype, ignored.has_value(), ignored.value_or(0), fault};
}

}  // namespace tandem::cuda
