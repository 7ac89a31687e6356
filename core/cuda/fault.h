// Faults that a kernel finds in its input, told to the host without waiting for it.
#pragma once

#include <cstdint>

namespace tandem::cuda {

// In memory that host and device share. The first fault since the last synchronisation counts.
struct Fault {
  // 0: none; 1: being written; 2: the rest is there.
  std::int32_t raised = 0;
  char op[28] = {};
  std::int64_t index = 0, bound = 0;  // the index found, and that it is to be in [0, bound)
  std::int64_t position = 0;          // of the index in its tensor
};

#if defined(__CUDACC__) || defined(TANDEM_CUDA_EMULATED)
// The name of an op as a kernel's argument.
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
