#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::max_pool2d(const Tensor&, const Tensor&, const Tensor&, const Pool2dOptions&) { throw InternalError("max_pool2d", std::string("pending")); }
void CpuBackend::max_pool2d_backward(const Tensor&, const Tensor&, const Tensor&, const Pool2dOptions&) { throw InternalError("max_pool2d_backward", std::string("pending")); }
void CpuBackend::max_pool2d_select(const Tensor&, const Tensor&, const Tensor&, const Pool2dOptions&) { throw InternalError("max_pool2d_select", std::string("pending")); }
void CpuBackend::avg_pool2d(const Tensor&, const Tensor&, const Pool2dOptions&) { throw InternalError("avg_pool2d", std::string("pending")); }
void CpuBackend::avg_pool2d_backward(const Tensor&, const Tensor&, const Pool2dOptions&) { throw InternalError("avg_pool2d_backward", std::string("pending")); }
void CpuBackend::adaptive_avg_pool2d(const Tensor&, const Tensor&) { throw InternalError("adaptive_avg_pool2d", std::string("pending")); }
void CpuBackend::adaptive_avg_pool2d_backward(const Tensor&, const Tensor&) { throw InternalError("adaptive_avg_pool2d_backward", std::string("pending")); }

}  // namespace tandem::cpu
