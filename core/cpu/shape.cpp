#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::strided_copy(const Tensor&, const StridedView&, const Tensor&, const StridedView&, const Shape&, bool) { throw InternalError("strided_copy", std::string("pending")); }
void CpuBackend::resize2d(const Tensor&, const Tensor&, ResizeMode, bool) { throw InternalError("resize2d", std::string("pending")); }
void CpuBackend::resize2d_backward(const Tensor&, const Tensor&, ResizeMode, bool) { throw InternalError("resize2d_backward", std::string("pending")); }

}  // namespace tandem::cpu
