// The two ways to take part in every op without touching one: the precision policy, which decides dtypes, and
// observers, which only look (profiler, NaN tracer, cast report, statistics). Both are per thread.
#pragma once

#include <span>

#include "autograd/op.h"

namespace tandem {

class Node;

// Decides the dtypes of an op before it runs. Implemented by amp/; without one, tensors are used as they are.
class PrecisionPolicy {
 public:
  virtual ~PrecisionPolicy() = default;
  // May replace `data` inputs by taped casts. Returns the floating dtype of the op's result; `common` is the
  // widest floating dtype among the `data` inputs as they came.
  virtual DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) = 0;
};

// Makes `policy` (nullptr: none) the active one for the life of the scope.
class PrecisionScope {
 public:
  explicit PrecisionScope(PrecisionPolicy* policy);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;
  static PrecisionPolicy* active();

 private:
  PrecisionPolicy* outer_;
};

class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before_forward(const OpInfo&, std::span<const Tensor> /*inputs*/) {}
  virtual void after_forward(const OpInfo&, std::span<const Tensor> /*inputs*/,
                             std::span<const Tensor> /*outputs*/) {}
  // Ops that a backward is composed of are reported in between, as forward.
  virtual void before_backward(const Node&, std::span<const Tensor> /*output gradients*/) {}
  virtual void after_backward(const Node&, std::span<const Tensor> /*input gradients*/) {}
};

// Adds `observer` for the life of the scope; several may be active.
class ObserverScope {
 public:
  explicit ObserverScope(OpObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
  // The innermost observer and the chain behind it; nullptr when there is none.
  static const ObserverScope* innermost();

  OpObserver& observer;
  const ObserverScope* const outer;
};

template <class Call>
void notify(Call&& call) {
  for (const ObserverScope* scope = ObserverScope::innermost(); scope; scope = scope->outer)
    call(scope->observer);
}

}  // namespace tandem
