#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::conv2d(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&) { throw InternalError("conv2d", std::string("pending")); }
void CpuBackend::conv2d_input_gradient(const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&, bool) { throw InternalError("conv2d_input_gradient", std::string("pending")); }
void CpuBackend::conv2d_filter_gradient(const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&, bool) { throw InternalError("conv2d_filter_gradient", std::string("pending")); }

}  // namespace tandem::cpu
