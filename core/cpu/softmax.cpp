#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::softmax(const Tensor&, int, bool, const Tensor&) { throw InternalError("softmax", std::string("pending")); }
void CpuBackend::softmax_backward(const Tensor&, const Tensor&, int, bool, const Tensor&) { throw InternalError("softmax_backward", std::string("pending")); }
void CpuBackend::cross_entropy(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&, const Tensor&, const Tensor&, const Tensor&) { throw InternalError("cross_entropy", std::string("pending")); }
void CpuBackend::cross_entropy_backward(const Tensor&, const Tensor&, const Tensor&, const CrossEntropyOptions&, const Tensor&, const Tensor&, const Tensor&) { throw InternalError("cross_entropy_backward", std::string("pending")); }

}  // namespace tandem::cpu
