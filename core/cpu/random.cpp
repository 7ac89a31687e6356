#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::random_uniform(const RandomKey&, const Tensor&, double, double) { throw InternalError("random_uniform", std::string("pending")); }
void CpuBackend::random_normal(const RandomKey&, const Tensor&, double, double) { throw InternalError("random_normal", std::string("pending")); }
void CpuBackend::dropout(const Tensor&, const RandomKey&, double, const Tensor&) { throw InternalError("dropout", std::string("pending")); }

}  // namespace tandem::cpu
