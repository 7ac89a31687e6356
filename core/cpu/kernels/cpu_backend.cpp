#include "core/cpu/kernels/cpu_backend.h"

#include <chrono>

#include "core/cpu/kernels/blocks.h"

namespace tandem::cpu::TANDEM_LEVEL {

std::uint64_t CpuBackend::timestamp() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

double CpuBackend::seconds_between(std::uint64_t first, std::uint64_t last) {
  return 1e-9 * static_cast<double>(static_cast<std::int64_t>(last - first));
}

CpuBackend& backend() {
  static CpuBackend backend;
  return backend;
}

Tensor as(const Tensor& tensor, DType dtype) {
  if (!tensor.defined() || tensor.dtype() == dtype) return tensor;
  const Tensor copy = workspace(tensor.shape(), dtype);
  backend().cast(tensor, copy, false);
  return copy;
}

}  // namespace tandem::cpu::TANDEM_LEVEL
