// Names the op whose kernels write beyond their memory, where guards are on (core/guard.h).
#pragma once

#include <memory>

#include "autograd/observers.h"

namespace tandem::train {

// Looks at the guards of host memory after every op of its thread while it lives: the first op that finds one
// overwritten throws InternalError with its name.
class GuardedOps final : public OpObserver {
 public:
  GuardedOps() : observed_(*this) {}
  GuardedOps(const GuardedOps&) = delete;
  GuardedOps& operator=(const GuardedOps&) = delete;

  void after_forward(const OpInfo& op, std::span<const Tensor>, std::span<const Tensor>) override;
  void after_backward(const Node& node, std::span<const Tensor>) override;

 private:
  ObserverScope observed_;
};

// Absent, and nothing is paid, where guards are off.
std::unique_ptr<GuardedOps> guarded_ops_if_asked();

}  // namespace tandem::train
