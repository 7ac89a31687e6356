#include "core/rnn_gradients.h"

#include <utility>

#include "core/backend.h"
#include "core/kernels/matmul.h"
#include "core/kernels/reduce.h"

namespace tandem {

namespace {

// [steps, rows, width] as [steps·rows, width].
Tensor flat(const Tensor& t) { return t.viewed({t.size(0) * t.size(1), t.size(2)}); }

// dq of the steps in a range that follow another step, and the h before them, whose first is at `time` of y.
// Rows that start from h0 have zeros of y here, or are left out.
std::pair<Tensor, Tensor> shifted(const RnnBackward& args, const RnnStepGradients& of, Index time) {
  const Index skip = of.first == 0 ? 1 : 0, left = of.last - of.first - skip;
  if (args.options.reverse) return {of.dq.rows(0, left), args.y.rows(left > 0 ? time + 1 : 0, left)};
  return {of.dq.rows(skip, left), args.y.rows(left > 0 ? time + skip - 1 : 0, left)};
}

}  // namespace

void write_gradients(Backend& backend, const RnnBackward& args, const RnnStepGradients& of) {
  const Index steps = args.in.x.size(0), rows = args.in.x.size(1), count = of.last - of.first;
  const Index time = args.options.reverse ? steps - of.last : of.first;
  const bool again = of.last < steps;
  const auto to = [&](RnnInput input) -> const GradOutput& { return args.gradients[input]; };
  const auto product = [&](const Tensor& a, const Tensor& b, RnnInput input, bool more) {
    backend.matmul().matmul(a, b, {}, to(input).tensor,
                            {.transpose_a = true, .accumulate = to(input).accumulate || again || more});
  };
  const auto sum = [&](const Tensor& of_rows, RnnInput input) {
    if (to(input).tensor.defined())
      backend.reduce().reduce(Reduction::sum, of_rows, 1u, to(input).tensor, to(input).accumulate || again);
  };
  const Tensor da = flat(of.da), dq = flat(of.dq);
  if (to(kX).tensor.defined()) {
    const Tensor dx = to(kX).tensor.rows(time, count).viewed({count * rows, args.in.x.size(2)});
    backend.matmul().matmul(da, args.in.weight_ih, {}, dx, {.accumulate = to(kX).accumulate});
  }
  if (to(kWeightIh).tensor.defined()) product(da, flat(args.in.x.rows(time, count)), kWeightIh, false);
  if (to(kWeightHh).tensor.defined()) {
    const auto [dq_after, h_before] = shifted(args, of, time);
    if (dq_after.numel() > 0) {
      product(flat(dq_after), flat(h_before), kWeightHh, false);
    } else if (!to(kWeightHh).accumulate && !again) {
      backend.fill(to(kWeightHh).tensor, 0.0);
    }
    if (of.first == 0 && args.in.h0.defined()) product(of.began, args.in.h0, kWeightHh, true);
  }
  sum(da, kBiasIh);
  sum(dq, kBiasHh);
  if (to(kWeightHr).tensor.defined()) product(flat(of.dh), flat(of.u), kWeightHr, false);
}

}  // namespace tandem
