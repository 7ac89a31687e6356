#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::matmul(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const MatmulOptions&) { throw InternalError("matmul", std::string("pending")); }

}  // namespace tandem::cpu
