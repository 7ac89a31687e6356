#include "core/cpu/cpu_backend.h"

namespace tandem::cpu {

CpuBackend& backend() {
  static CpuBackend backend;
  return backend;
}

}  // namespace tandem::cpu
