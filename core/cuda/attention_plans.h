// Choice between a library's attention and the own kernels.
//
// An engine must agree with the own kernels on the first finite results outside of a recording; until then,
// and if it does not, the own kernels compute. Libraries have been wrong in single versions and shapes.
#pragma once

#include <functional>

#include "core/cuda/cuda_backend.h"
#include "core/cuda/dnn_attention.h"
#include "core/kernel_cache.h"
#include "core/kernels/attention.h"

namespace tandem::cuda {

class AttentionPlans {
 public:
  explicit AttentionPlans(CudaBackend& backend) : backend_(backend) {}

  // Computes by an engine, or returns false. `own` computes by the own kernels, anywhere.
  bool forward(const AttentionForward& args, const std::function<void(const AttentionForward&)>& own);
  bool backward(const AttentionBackward& args, const std::function<void(const AttentionBackward&)>& own);

 private:
  struct Plan {
    std::unique_ptr<dnn::AttentionEngine> engine;  // null: the own kernels compute
    bool confirmed = false;
  };
  // nullptr if there is no engine, or none that may be used now.
  Plan* plan_of(const dnn::AttentionGraph& graph);
  bool run(Plan& plan, const dnn::AttentionGraph& graph, const AttentionMask& mask,
           std::array<void*, dnn::kAttentionTensors> addresses);

  CudaBackend& backend_;
  KernelCache<Plan> forward_, backward_;
};

}  // namespace tandem::cuda
