// Per-thread hooks of every op: the precision policy, which decides dtypes, and read-only observers
// (profiler, NaN tracer, cast report, statistics).
#pragma once

#include <span>

#include "autograd/op.h"
#include "core/scoped_value.h"

namespace tandem {

class Node;

// Decides the dtypes of an op before it runs. Implemented by amp/; without a policy, tensors are used
// unchanged.
class PrecisionPolicy {
 public:
  virtual ~PrecisionPolicy() = default;
  // May replace `data` inputs by taped casts. Returns the floating dtype of the op's result; `common` is the
  // widest floating dtype among the original `data` inputs.
  virtual DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) = 0;
  // Type of the result of an op that a product will read; `given` is that of prepare().
  virtual DType for_product(const OpInfo& /*info*/, DType given) const { return given; }
};

// The decisions of the active policy, if any, about an op: prepare() and for_product(). When a recomputed
// part is recorded, those of its first pass (autograd/recompute.h).
DType prepared_by_policy(const OpInfo& info, std::span<Tensor> inputs, DType common);
DType type_for_product(const OpInfo& info, DType given);

// Activates `policy` (nullptr: none) within the scope.
class PrecisionScope : ScopedValue<PrecisionPolicy*> {
 public:
  explicit PrecisionScope(PrecisionPolicy* policy);
  static PrecisionPolicy* active();
};

class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before_forward(const OpInfo&, std::span<const Tensor> /*inputs*/) {}
  virtual void after_forward(const OpInfo&, std::span<const Tensor> /*inputs*/,
                             std::span<const Tensor> /*outputs*/) {}
  // Ops that compose a backward are reported in between, as forward ops.
  virtual void before_backward(const Node&, std::span<const Tensor> /*output gradients*/) {}
  virtual void after_backward(const Node&, std::span<const Tensor> /*input gradients*/) {}
};

// Adds `observer` within the scope; several may be active.
class ObserverScope {
 public:
  explicit ObserverScope(OpObserver& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;
  // The innermost observer scope, which links to the outer ones; nullptr without any.
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
