// Hook of a test into a run's evaluation.
#pragma once

#include <cstring>
#include <functional>
#include <utility>

#include "autograd/modes.h"
#include "autograd/observers.h"

namespace tandem::test {

// Acts in every batch of the evaluations within its life, before its loss, with its number, from 1 on.
class InEvaluation final : public OpObserver {
 public:
  explicit InEvaluation(std::function<void(int)> act) : act_(std::move(act)), observed_(*this) {}
  // In that batch only.
  InEvaluation(int batch, std::function<void()> act)
      : InEvaluation([batch, once = std::move(act)](int now) {
          if (now == batch) once();
        }) {}
  void before_forward(const OpInfo& info, std::span<const Tensor>) override {
    const bool loss = std::strstr(info.name, "mse_loss") || std::strstr(info.name, "cross_entropy");
    if (loss && !GradMode::enabled()) act_(++seen_);
  }

 private:
  int seen_ = 0;
  std::function<void(int)> act_;
  ObserverScope observed_;
};

}  // namespace tandem::test
