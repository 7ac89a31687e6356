#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::batch_norm_train(const BatchNormForward&) { throw InternalError("batch_norm_train", std::string("pending")); }
void CpuBackend::batch_norm_infer(const BatchNormForward&) { throw InternalError("batch_norm_infer", std::string("pending")); }
void CpuBackend::batch_norm_backward(const BatchNormBackward&) { throw InternalError("batch_norm_backward", std::string("pending")); }
void CpuBackend::layer_norm(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&, const Tensor&, const Tensor&) { throw InternalError("layer_norm", std::string("pending")); }
void CpuBackend::layer_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { throw InternalError("layer_norm_backward", std::string("pending")); }
void CpuBackend::group_norm(const Tensor&, const Tensor&, const Tensor&, Index, double, const Tensor&, const Tensor&, const Tensor&) { throw InternalError("group_norm", std::string("pending")); }
void CpuBackend::group_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, Index, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { throw InternalError("group_norm_backward", std::string("pending")); }

}  // namespace tandem::cpu
