#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::check_gradients(const Tensor&, std::span<const UpdateRange>, const Tensor&) { throw InternalError("check_gradients", std::string("pending")); }
void CpuBackend::decide(const StepRules&, const Tensor&, const Tensor&) { throw InternalError("decide", std::string("pending")); }
void CpuBackend::update(const UpdateRule&, std::span<const UpdateRange>, const UpdateBuffers&, const Tensor&) { throw InternalError("update", std::string("pending")); }
void CpuBackend::commit(const Tensor&, const Tensor&, const Tensor&) { throw InternalError("commit", std::string("pending")); }
void CpuBackend::update_average(const Tensor&, const Tensor&, double, const Tensor&) { throw InternalError("update_average", std::string("pending")); }

}  // namespace tandem::cpu
