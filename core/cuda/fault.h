// Input errors that kernels report to the host asynchronously.
#pragma once

#include <cstdint>

namespace tandem::cuda {

// Lies in memory shared by host and device. Holds the first fault since the last synchronisation.
struct Fault {
  // 0: none; 1: being written; 2: complete.
  std::int32_t raised = 0;
  char op[28] = {};
  std::int64_t index = 0, bound = 0;  // the invalid index; valid are [0, bound)
  std::int64_t position = 0;          // of the index in its tensor
};

#if defined(__CUDACC__) || defined(TANDEM_CUDA_EMULATED)
// An op's name as a kernel argument.
struct OpName {
  char text[28] = {};
};

__device__ __forceinline__ void raise(Fault* fault, const OpName& op, std::int64_t index, std::int64_t bound,
                                      std::int64_t position) {
  if (atomicCAS_system(&fault->raised, 0, 1) != 0) return;
  for (int i = 0; i < 28; ++i) fault->op[i] = op.text[i];
  fault->index = index;
  fault->bound = bound;
  fault->position = position;
  __threadfence_system();
  atomicCAS_system(&fault->raised, 1, 2);
}
#endif

}  // namespace tandem::cuda
