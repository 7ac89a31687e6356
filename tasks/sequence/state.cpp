#include "tasks/sequence/state.h"

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"

namespace tandem::tasks {

namespace {

// Per layer and stream, [L,N,1]: 0 where everything is finite, else NaN.
Tensor faults(const Tensor& state) { return sum(cast(state, wide_of(state.dtype())) * 0.0, {-1}, true); }

}  // namespace

RnnState carried_state(const LossContext& context) { return {context.carried("h"), context.carried("c")}; }

void carry_on(const LossContext& context, const RnnState& state) {
  if (!context.carry) return;
  const NoGrad no_grad;
  // A stream restarts as a whole: [1,N,1].
  Tensor fault = sum(faults(state.h.detach()), {0}, true);
  if (state.c.defined()) fault = fault + sum(faults(state.c.detach()), {0}, true);
  const Tensor sound = equal(fault, Tensor::zeros({1}, {.dtype = fault.dtype(), .device = fault.device()}));
  const auto keep = [&](const char* name, const Tensor& t) {
    if (t.defined()) context.carry_on(name, where(sound, t.detach(), Tensor::zeros({1}, t.options())));
  };
  keep("h", state.h);
  keep("c", state.c);
}

}  // namespace tandem::tasks
