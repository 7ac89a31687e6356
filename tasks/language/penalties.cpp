#include "tasks/language/penalties.h"

#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"

namespace tandem::tasks {

Tensor penalised(const Tensor& loss, const models::CausalModel::Advanced& advanced, double ar, double tar) {
  Tensor sum = loss;
  if (ar > 0.0) sum = add(sum, mul(mean(square(cast(advanced.hidden, DType::f32))), ar));
  const Tensor& raw = advanced.raw.defined() ? advanced.raw : advanced.hidden;
  const Index steps = raw.size(0);
  if (tar > 0.0 && steps > 1) {
    const Tensor h = cast(raw, DType::f32);
    const Tensor change = sub(slice(h, 0, 1, steps), slice(h, 0, 0, steps - 1));
    sum = add(sum, mul(mean(square(change)), tar));
  }
  return sum;
}

}  // namespace tandem::tasks
