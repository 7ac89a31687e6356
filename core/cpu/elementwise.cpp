#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::fill(const Tensor&, double) { throw InternalError("fill", std::string("pending")); }
void CpuBackend::copy_bytes(const Tensor&, const Tensor&) { throw InternalError("copy_bytes", std::string("pending")); }
void CpuBackend::cast(const Tensor&, const Tensor&, bool) { throw InternalError("cast", std::string("pending")); }
void CpuBackend::pointwise(FormulaId, const Scalars&, std::span<const Tensor>, const Tensor&, bool) { throw InternalError("pointwise", std::string("pending")); }

}  // namespace tandem::cpu
