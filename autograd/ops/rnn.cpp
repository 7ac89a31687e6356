#include "autograd/ops/rnn.h"

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/lengths.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/random.h"
#include "autograd/ops/rnn_ops.h"
#include "autograd/ops/shape.h"
#include "autograd/wide_gradients.h"
#include "core/error.h"
#include "core/kernels/rnn.h"

namespace tandem {

namespace ops {

namespace {

// Checks the shape of a defined tensor.
void check_shape(const char* op, const char* what, const Tensor& t, const Shape& shape) {
  require(!t.defined() || (t.shape() == shape && is_floating(t.dtype())), op,
          "{} must be floating {}, got {}", what, to_string(shape), to_string(t));
}

struct Extents {
  Index steps, rows, inputs, units, outputs, gates;
};

Extents check(const char* op, const RnnOptions& options, const RnnInputs& in) {
  require(in.x.defined() && is_floating(in.x.dtype()) && in.x.rank() == 3, op,
          "x must be floating [T,N,I], got {}", to_string(in.x));
  require(in.x.size(0) > 0, op, "x {} has no steps: a sequence needs at least one", to_string(in.x));
  const Tensor& hidden = in.weight_hh;
  const Index gates = gates_of(options.cell);
  require(hidden.defined() && hidden.rank() == 2 && hidden.size(0) > 0 && hidden.size(0) % gates == 0 &&
              hidden.size(1) > 0,
          op, "weight_hh must be [{}·H,P], got {}", gates, to_string(hidden));
  const Extents e{in.x.size(0),           in.x.size(1),   in.x.size(2),
                  hidden.size(0) / gates, hidden.size(1), hidden.size(0)};
  require(in.weight_ih.defined(), op, "weight_ih is absent");
  check_shape(op, "weight_ih", in.weight_ih, {e.gates, e.inputs});
  check_shape(op, "bias_ih", in.bias_ih, {e.gates});
  check_shape(op, "bias_hh", in.bias_hh, {e.gates});
  check_shape(op, "h_0", in.h0, {e.rows, e.outputs});
  check_shape(op, "c_0", in.c0, {e.rows, e.units});
  const bool lstm = options.cell == RnnCell::lstm;
  require(lstm || (!in.c0.defined() && !in.weight_hr.defined()), op,
          "only lstm has a cell state and a projection");
  if (in.weight_hr.defined()) {
    check_shape(op, "weight_hr", in.weight_hr, {e.outputs, e.units});
    require(e.outputs < e.units, op, "a projection must have fewer outputs than units, got {} of {}",
            e.outputs, e.units);
  } else {
    require(e.outputs == e.units, op, "weight_hh {} expects {} outputs of {} units: weight_hr is absent",
            to_string(hidden.shape()), e.outputs, e.units);
  }
  check_lengths(op, options.lengths, e.rows, e.steps);
  return e;
}

// Types may be mixed: all are computed in the widest type of x, h_0 and the weights; `cast(tensor, dtype)` is
// called for tensors of another type. Biases and c_0 have its arithmetic type.
template <class Cast>
RnnInputs unified(const RnnInputs& in, DType dtype, const Cast& cast) {
  RnnInputs result = in;
  const std::span<Tensor> tensors = tensors_of(result);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const DType wanted = kRnnRoles[i] == keep ? wide_of(dtype) : dtype;
    if (tensors[i].defined() && tensors[i].dtype() != wanted) tensors[i] = cast(tensors[i], wanted);
  }
  return result;
}

DType common_dtype(const RnnInputs& in) {
  DType dtype = in.x.dtype();
  for (const Tensor* t : {&in.h0, &in.weight_ih, &in.weight_hh, &in.weight_hr}) {
    if (t->defined()) dtype = promote(dtype, t->dtype());
  }
  return dtype;
}

RnnResult forward_of(const char* op, const RnnOptions& options, Context& context, RnnTensors::Saved& saved,
                     const RnnInputs& in) {
  const Extents e = check(op, options, in);
  const auto copy = [&](const Tensor& t, DType dtype) { return context.converted(t, dtype); };
  RnnForward args{.options = options, .in = unified(in, context.dtype, copy)};
  args.y = context.empty({e.steps, e.rows, e.outputs});
  args.h_n = context.empty({e.rows, e.outputs});
  if (options.cell == RnnCell::lstm) args.c_n = context.empty({e.rows, e.units}, wide_of(context.dtype));
  args.keep = GradMode::records() && detail::any_requires_grad(tensors_of(in));
  const RnnReserve reserve = context.backend.rnn().rnn(args);
  if (args.keep) saved = {args.in, args.y, reserve.gates, reserve.states};
  return {args.y, {args.h_n, args.c_n}};
}

RnnInputs backward_of(const RnnOptions& options, const RnnTensors::Saved& saved, const RnnResult& dy,
                      const Needs& needs) {
  RnnBackward args{.options = options,
                   .in = saved.in,
                   .y = saved.y,
                   .reserve = {saved.gates, saved.states},
                   .dy = dy.y,
                   .dh_n = dy.state.h,
                   .dc_n = dy.state.c};
  const Tensor of_results[] = {dy.y, dy.state.h};
  const bool wide = are_wider(of_results, saved.in.x.dtype());
  if (wide) {
    for (Tensor& tensor : tensors_of(args.in)) tensor = widened(tensor);
    for (Tensor* tensor : {&args.y, &args.reserve.gates, &args.reserve.states, &args.dy, &args.dh_n})
      *tensor = widened(*tensor);
  }
  const std::span<const Tensor> inputs = tensors_of(args.in);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!needs[i]) continue;
    const Tensor& input = inputs[i];
    const GradOutput* const sink = needs.sink(i);
    if (sink && !(wide && is_16bit(sink->tensor.dtype()))) {
      args.gradients[i] = *sink;
      args.gradients[i].tensor = sink->tensor.viewed(input.shape());
    } else {
      // Weight gradients are sums over all steps: f32 until the engine rounds them.
      const bool state = i < 3;
      args.gradients[i].tensor = Tensor::empty(
          input.shape(), {.dtype = state ? input.dtype() : wide_of(input.dtype()), .device = input.device()});
    }
  }
  backend_for(saved.in.x.device()).rnn().rnn_backward(args);
  RnnInputs result;
  const std::span<Tensor> gradients = tensors_of(result);
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = args.gradients[i].tensor;
  return result;
}

// Rows that are active at a step: bool [N,1] on the device of x; absent: all.
Tensor active_rows(const RnnOptions& options, Index time, const Tensor& x) {
  if (!options.lengths.defined()) return {};
  const std::int64_t* length = options.lengths.data<std::int64_t>();
  Tensor mask = Tensor::empty({x.size(1), 1}, {.dtype = DType::boolean});
  for (Index row = 0; row < x.size(1); ++row) mask.data<bool>()[row] = time < length[row];
  return mask.to(x.device());
}

Tensor zeros_if_absent(const Tensor& t, const Shape& shape, DType dtype, Device device) {
  return t.defined() ? t : Tensor::zeros(shape, {.dtype = dtype, .device = device});
}

// One step from the gate inputs, [N,G·H] of the arithmetic type.
RnnState step_of(RnnCell cell, const Tensor& a, const Tensor& q, const RnnState& before,
                 const Tensor& weight_hr) {
  const Index units = a.size(1) / gates_of(cell);
  const DType stored = before.h.dtype();
  const auto gates = [&](const Tensor& t) {
    return split(t, std::vector<Index>(static_cast<std::size_t>(gates_of(cell)), units), 1);
  };
  if (cell == RnnCell::lstm) {
    const TensorList gate = gates(a + q);
    const Tensor c = sigmoid(gate[1]) * before.c + sigmoid(gate[0]) * tanh(gate[2]);
    const Tensor u = cast(sigmoid(gate[3]) * tanh(c), stored);
    return {weight_hr.defined() ? matmul(u, weight_hr, false, true) : u, c};
  }
  if (cell == RnnCell::gru) {
    const TensorList from_x = gates(a), from_h = gates(q);
    const Tensor r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]);
    const Tensor n = tanh(from_x[2] + r * from_h[2]);
    return {cast((1.0 - z) * n + z * cast(before.h, n.dtype()), stored), {}};
  }
  const Tensor sum = a + q;
  return {cast(cell == RnnCell::rnn_relu ? relu(sum) : tanh(sum), stored), {}};
}

RnnResult composed_of(const char* op, const RnnOptions& options, const RnnInputs& given) {
  const Extents e = check(op, options, given);
  const RnnInputs in =
      unified(given, common_dtype(given), [](const Tensor& t, DType dtype) { return cast(t, dtype); });
  const DType stored = in.x.dtype(), wide = wide_of(stored);
  const Device device = in.x.device();
  const auto part = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor product = cast(matmul(x, weight, false, true), wide);
    return bias.defined() ? product + bias : product;
  };
  const TensorList inputs = unbind(part(in.x, in.weight_ih, in.bias_ih));
  RnnState state{zeros_if_absent(in.h0, {e.rows, e.outputs}, stored, device), {}};
  if (options.cell == RnnCell::lstm) state.c = zeros_if_absent(in.c0, {e.rows, e.units}, wide, device);
  const Tensor zero = Tensor::zeros({1, 1}, {.dtype = stored, .device = device});
  TensorList y(inputs.size());
  for (Index step = 0; step < e.steps; ++step) {
    const Index time = options.reverse ? e.steps - 1 - step : step;
    const auto t = static_cast<std::size_t>(time);
    const RnnState next =
        step_of(options.cell, inputs[t], part(state.h, in.weight_hh, in.bias_hh), state, in.weight_hr);
    const Tensor active = active_rows(options, time, in.x);
    y[t] = active.defined() ? where(active, next.h, zero) : next.h;
    state.h = active.defined() ? where(active, next.h, state.h) : next.h;
    if (state.c.defined()) state.c = active.defined() ? where(active, next.c, state.c) : next.c;
  }
  return {stack(y, 0), state};
}

}  // namespace

ProductSizes RnnTensors::products(std::span<const Tensor> inputs, std::span<const Tensor>) {
  const Tensor &x = inputs[0], &weight_ih = inputs[3], &weight_hh = inputs[4], &weight_hr = inputs[7];
  const Index steps = x.size(0), rows = x.size(1);
  ProductSizes sizes{ProductSize{.m = steps * rows, .n = weight_ih.size(0), .k = weight_ih.size(1)},
                     ProductSize{.m = rows, .n = weight_hh.size(0), .k = weight_hh.size(1), .count = steps}};
  if (weight_hr.defined())
    sizes[2] = {.m = rows, .n = weight_hr.size(0), .k = weight_hr.size(1), .count = steps};
  return sizes;
}

template <RnnCell kCell>
RnnResult RnnOp<kCell>::forward(Context& context, Saved& saved, const RnnInputs& in) const {
  return forward_of(info.name, options, context, saved, in);
}

template <RnnCell kCell>
RnnInputs RnnOp<kCell>::backward(const Saved& saved, const RnnResult& dy, const Needs& needs) const {
  return backward_of(options, saved, dy, needs);
}

template <RnnCell kCell>
RnnResult RnnOp<kCell>::composed(const RnnOp& op, const RnnInputs& in) {
  return composed_of(info.name, op.options, in);
}

template struct RnnOp<RnnCell::lstm>;
template struct RnnOp<RnnCell::gru>;
template struct RnnOp<RnnCell::rnn_tanh>;

}  // namespace ops

namespace {

// State of layer k and direction d, at k·D + d.
Tensor state_at(const Tensor& states, std::size_t index) {
  if (!states.defined()) return {};
  const auto i = static_cast<Index>(index);
  return reshape(slice(states, 0, i, i + 1), {states.size(1), states.size(2)});
}

}  // namespace

RnnResult rnn_layer(const Tensor& x, const RnnState& state, const RnnWeights& w, const RnnOptions& options) {
  const RnnInputs in{x, state.h, state.c, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, w.weight_hr};
  switch (options.cell) {
    case RnnCell::lstm:
      return apply(ops::Lstm{{options}}, in);
    case RnnCell::gru:
      return apply(ops::Gru{{options}}, in);
    default:
      return apply(ops::Rnn{{options}}, in);
  }
}

RnnResult rnn_stack(const Tensor& x, const RnnState& state, std::span<const RnnWeights> weights,
                    const RnnStack& options) {
  const std::size_t directions = options.bidirectional ? 2 : 1, layers = weights.size() / directions;
  const char* op = options.cell == RnnCell::lstm ? "lstm" : options.cell == RnnCell::gru ? "gru" : "rnn";
  require(!weights.empty() && weights.size() % directions == 0, op,
          "{} sets of weights do not make layers of {} direction(s)", weights.size(), directions);
  for (const Tensor* s : {&state.h, &state.c}) {
    require(!s->defined() || (s->rank() == 3 && s->size(0) == static_cast<Index>(weights.size())), op,
            "states must be [{},N,H], one for each layer and direction, got {}", weights.size(),
            to_string(*s));
  }
  Tensor input = x;
  TensorList h, c;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (layer > 0) input = dropout(input, options.dropout, options.training);
    TensorList outputs;
    for (std::size_t d = 0; d < directions; ++d) {
      const std::size_t index = layer * directions + d;
      RnnResult result =
          rnn_layer(input, {state_at(state.h, index), state_at(state.c, index)}, weights[index],
                    {.cell = options.cell,
                     .reverse = d == 1,
                     .recompute = options.recompute,
                     .lengths = options.lengths});
      outputs.push_back(result.y);
      h.push_back(result.state.h);
      if (result.state.c.defined()) c.push_back(result.state.c);
    }
    input = directions == 1 ? outputs.front() : concat(outputs, -1);
  }
  return {input, {stack(h, 0), c.empty() ? Tensor() : stack(c, 0)}};
}

OpInfos rnn_ops() { return infos_of<ops::Lstm, ops::Gru, ops::Rnn>(); }

}  // namespace tandem
