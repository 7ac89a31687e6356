#include "core/cpu/cpu_backend.h"
#include "core/error.h"

namespace tandem::cpu {

void CpuBackend::gather(const Tensor&, const Tensor&, int, const Tensor&) { throw InternalError("gather", std::string("pending")); }
void CpuBackend::scatter_add(const Tensor&, const Tensor&, int, const Tensor&) { throw InternalError("scatter_add", std::string("pending")); }
void CpuBackend::index_select(const Tensor&, const Tensor&, int, const Tensor&, const char*) { throw InternalError("index_select", std::string("pending")); }
void CpuBackend::index_add(const Tensor&, const Tensor&, int, const Tensor&, std::optional<Index>) { throw InternalError("index_add", std::string("pending")); }
void CpuBackend::one_hot(const Tensor&, const Tensor&) { throw InternalError("one_hot", std::string("pending")); }
void CpuBackend::topk(const Tensor&, Index, int, bool, const Tensor&, const Tensor&) { throw InternalError("topk", std::string("pending")); }

}  // namespace tandem::cpu
