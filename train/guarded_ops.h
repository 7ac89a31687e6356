// GuardedOps: names the op whose kernels write out of bounds, if guards are on (core/guard.h).
#pragma once

#include <memory>

#include "autograd/observers.h"

namespace tandem::train {

// While it lives, checks the guards of host memory after every op of its thread. The first op that finds an
// overwritten guard throws InternalError with its name.
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

// Null if guards are off, at no cost.
std::unique_ptr<GuardedOps> guarded_ops_if_asked();

}  // namespace tandem::train
