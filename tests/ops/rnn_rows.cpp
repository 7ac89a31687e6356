// Rows of autograd/ops/rnn.h: every cell, direction, state, bias, projection and length against loops in f64,
// and stacks of them with dropout between layers.
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/rnn.h"
#include "autograd/ops/shape.h"
#include "core/kernels/rnn.h"
#include "core/random.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// What a row is given, and how.
struct Form {
  std::string name;
  RnnCell cell = RnnCell::lstm;
  bool reverse = false, states = true, biases = true, projection = false, recompute = false;
  std::vector<std::int64_t> lengths = {};  // of all rows, as many as the case has
};

struct Sizes {
  Index steps, rows, inputs, units, outputs;
};

bool is_lstm(const Form& form) { return form.cell == RnnCell::lstm; }

// The inputs of a form in order: x, weight_ih, weight_hh, then h0 and c0, both biases and weight_hr where it
// has them.
Shapes shapes_of(const Form& form, const Sizes& n) {
  const Index gates = gates_of(form.cell) * n.units, outputs = form.projection ? n.outputs : n.units;
  Shapes shapes{{n.steps, n.rows, n.inputs}, {gates, n.inputs}, {gates, outputs}};
  if (form.states) shapes.push_back({n.rows, outputs});
  if (form.states && is_lstm(form)) shapes.push_back({n.rows, n.units});
  if (form.biases) shapes.insert(shapes.end(), 2, Shape{gates});
  if (form.projection) shapes.push_back({outputs, n.units});
  return shapes;
}

std::vector<Draw> draws_of(const Form& form) {
  const Draw weight{.low = -0.6, .high = 0.6}, wide{.low = -1, .high = 1, .parameter = true};
  std::vector<Draw> draws{{.low = -1.5, .high = 1.5}, weight, weight};
  if (form.states) draws.push_back({.low = -1, .high = 1});
  if (form.states && is_lstm(form)) draws.push_back(wide);
  if (form.biases) draws.insert(draws.end(), 2, wide);
  if (form.projection) draws.push_back(weight);
  return draws;
}

// The positions of a form's optional inputs; -1: absent.
struct Positions {
  int h0 = -1, c0 = -1, bias_ih = -1, bias_hh = -1, weight_hr = -1;
  explicit Positions(const Form& form) {
    int next = 3;
    if (form.states) h0 = next++;
    if (form.states && is_lstm(form)) c0 = next++;
    if (form.biases) bias_ih = next++, bias_hh = next++;
    if (form.projection) weight_hr = next++;
  }
};

template <class List, class T = typename List::value_type>
T at_or_absent(const List& list, int position) {
  return position < 0 ? T{} : list[static_cast<std::size_t>(position)];
}

// y, h_n and, of lstm, c_n one after the other.
Tensor flat(const RnnResult& result) {
  TensorList parts{reshape(result.y, {-1}), reshape(result.state.h, {-1})};
  if (result.state.c.defined()) parts.push_back(reshape(result.state.c, {-1}));
  for (Tensor& part : parts) part = cast(part, result.y.dtype());
  return concat(parts, 0);
}

Tensor lengths_of(std::vector<std::int64_t> lengths) {
  return Tensor::from(lengths, Shape{static_cast<Index>(lengths.size())});
}

Run run_of(const Form& form) {
  return [form](const TensorList& in) {
    const Positions at(form);
    const auto optional = [&](int position) { return at_or_absent(in, position); };
    RnnOptions options{.cell = form.cell, .reverse = form.reverse, .recompute = form.recompute};
    if (!form.lengths.empty()) options.lengths = lengths_of(form.lengths);
    return flat(rnn_layer(in[0], {optional(at.h0), optional(at.c0)},
                          {in[1], in[2], optional(at.bias_ih), optional(at.bias_hh), optional(at.weight_hr)},
                          options));
  };
}

double sigma(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// One row, one step after the other.
class Walk {
 public:
  Walk(const Form& form, const Arrays& in, Index row)
      : form_(form),
        in_(in),
        at_(form),
        row_(row),
        units_(in[1].shape[0] / gates_of(form.cell)),
        outputs_(in[2].shape[1]),
        h(size(outputs_)),
        c(size(units_)) {
    for (Index p = 0; p < outputs_; ++p) h[size(p)] = at_.h0 < 0 ? 0.0 : in[size(at_.h0)](row, p);
    for (Index u = 0; u < units_; ++u) c[size(u)] = at_.c0 < 0 ? 0.0 : in[size(at_.c0)](row, u);
  }

  void step(Index t) {
    std::vector<double> next(size(units_));
    for (Index u = 0; u < units_; ++u) next[size(u)] = unit(t, u);
    if (form_.projection) {
      for (Index p = 0; p < outputs_; ++p) {
        h[size(p)] = 0.0;
        for (Index u = 0; u < units_; ++u) h[size(p)] += in_[size(at_.weight_hr)](p, u) * next[size(u)];
      }
    } else {
      h = next;
    }
  }

 private:
  static std::size_t size(Index i) { return static_cast<std::size_t>(i); }
  double from_input(Index t, Index gate, Index u) const {
    const Index r = gate * units_ + u;
    double sum = at_.bias_ih < 0 ? 0.0 : in_[size(at_.bias_ih)](r);
    for (Index i = 0; i < in_[0].shape[2]; ++i) sum += in_[1](r, i) * in_[0](t, row_, i);
    return sum;
  }
  double from_hidden(Index gate, Index u) const {
    const Index r = gate * units_ + u;
    double sum = at_.bias_hh < 0 ? 0.0 : in_[size(at_.bias_hh)](r);
    for (Index p = 0; p < outputs_; ++p) sum += in_[2](r, p) * h[size(p)];
    return sum;
  }
  double both(Index t, Index gate, Index u) const { return from_input(t, gate, u) + from_hidden(gate, u); }

  double unit(Index t, Index u) {
    switch (form_.cell) {
      case RnnCell::lstm: {
        double& cell = c[size(u)];
        cell = sigma(both(t, 1, u)) * cell + sigma(both(t, 0, u)) * std::tanh(both(t, 2, u));
        return sigma(both(t, 3, u)) * std::tanh(cell);
      }
      case RnnCell::gru: {
        const double r = sigma(both(t, 0, u)), z = sigma(both(t, 1, u));
        const double n = std::tanh(from_input(t, 2, u) + r * from_hidden(2, u));
        return (1.0 - z) * n + z * h[size(u)];
      }
      case RnnCell::rnn_tanh:
        return std::tanh(both(t, 0, u));
      default:
        return std::max(0.0, both(t, 0, u));
    }
  }

  const Form& form_;
  const Arrays& in_;
  const Positions at_;
  const Index row_, units_, outputs_;

 public:
  std::vector<double> h, c;
};

Oracle oracle_of(const Form& form) {
  return [form](const Arrays& in) {
    const Index steps = in[0].shape[0], rows = in[0].shape[1], outputs = in[2].shape[1];
    const Index units = in[1].shape[0] / gates_of(form.cell);
    Array y({steps, rows, outputs}), h({rows, outputs}), c({rows, units});
    for (Index row = 0; row < rows; ++row) {
      const Index length = form.lengths.empty() ? steps : form.lengths[static_cast<std::size_t>(row)];
      Walk walk(form, in, row);
      for (Index i = 0; i < length; ++i) {
        const Index t = form.reverse ? length - 1 - i : i;
        walk.step(t);
        for (Index p = 0; p < outputs; ++p) y(t, row, p) = walk.h[static_cast<std::size_t>(p)];
      }
      for (Index p = 0; p < outputs; ++p) h(row, p) = walk.h[static_cast<std::size_t>(p)];
      for (Index u = 0; u < units; ++u) c(row, u) = walk.c[static_cast<std::size_t>(u)];
    }
    std::vector<double> all = y.values;
    all.insert(all.end(), h.values.begin(), h.values.end());
    if (is_lstm(form)) all.insert(all.end(), c.values.begin(), c.values.end());
    const auto count = static_cast<Index>(all.size());
    return Array({count}, std::move(all));
  };
}

// Sizes on both sides of a vector of 16 units, of one of 4, of the rows of a tile, of the part of a panel
// that all rows are multiplied with at once, and of two steps; and more steps than one segment where those
// are what is kept.
std::vector<Sizes> sizes_of(const Form& form) {
  const auto rows = static_cast<Index>(form.lengths.size());
  std::vector<Sizes> sizes;
  if (form.lengths.empty()) {
    sizes = {{3, 2, 2, 3, 2},   {1, 1, 1, 2, 1},     {2, 3, 5, 17, 16}, {2, 3, 4, 8, 4},
             {5, 9, 4, 35, 18}, {2, 26, 33, 70, 33}, {3, 0, 2, 3, 2}};
  } else {
    sizes = {{4, rows, 1, 2, 1}, {4, rows, 3, 37, 20}, {4, rows, 3, 36, 20}};
  }
  if (form.recompute) sizes.push_back({kRnnSegment + 4, std::max<Index>(rows, 1), 1, 2, 1});
  return sizes;
}

const char* op_of(RnnCell cell) {
  return cell == RnnCell::lstm ? "lstm" : cell == RnnCell::gru ? "gru" : "rnn";
}

Row row_of(const Form& form) {
  Row row{.op = op_of(form.cell),
          .variant = form.name,
          .run = run_of(form),
          .oracle = oracle_of(form),
          .cases = {},
          .draws = draws_of(form)};
  for (const Sizes& n : sizes_of(form)) row.cases.push_back(shapes_of(form, n));
  row.wide_output = 2;  // c_n
  row.normalised = true;
  // h is rounded at every step, and the steps after it take the rounding up; beside the kink of relu it
  // decides whether a gradient passes.
  row.slack = form.cell == RnnCell::rnn_relu ? 10.0 : 2.0;
  return row;
}

std::vector<Form> forms() {
  std::vector<Form> forms{
      {.name = "plain"},
      {.name = "bare", .states = false, .biases = false},
      {.name = "reversed", .reverse = true},
      {.name = "projected", .projection = true},
      {.name = "projected, reversed, bare",
       .reverse = true,
       .states = false,
       .biases = false,
       .projection = true},
      {.name = "lengths", .lengths = {4, 1, 3, 0, 2}},
      {.name = "lengths, reversed", .reverse = true, .lengths = {2, 4, 0, 1, 3}},
      {.name = "lengths, projected", .projection = true, .lengths = {3, 0, 4}},
      {.name = "lengths, reversed, bare", .reverse = true, .states = false, .lengths = {1, 2}},
      {.name = "recomputed", .recompute = true},
      {.name = "recomputed, lengths, reversed, projected",
       .reverse = true,
       .projection = true,
       .recompute = true,
       .lengths = {4, 0, 3}}};
  for (const RnnCell cell : {RnnCell::gru, RnnCell::rnn_tanh, RnnCell::rnn_relu}) {
    const std::string name = name_of(cell);
    forms.push_back({.name = name, .cell = cell});
    forms.push_back({.name = name + ", bare", .cell = cell, .states = false, .biases = false});
    forms.push_back(
        {.name = name + ", lengths, reversed", .cell = cell, .reverse = true, .lengths = {3, 0, 4, 1}});
    forms.push_back(
        {.name = name + ", lengths", .cell = cell, .states = cell != RnnCell::gru, .lengths = {3, 4, 1, 0}});
    forms.push_back({.name = name + ", recomputed", .cell = cell, .reverse = true, .recompute = true});
  }
  return forms;
}

// ---- Stacks

// Layers of one form; `layer.reverse` is not used.
struct Stack {
  Form layer;
  Index layers = 2;
  bool bidirectional = false;
  double dropout = 0.0;

  Index directions() const { return bidirectional ? 2 : 1; }
  Index cells() const { return layers * directions(); }
};

constexpr std::uint64_t kSeed = 17;
constexpr std::uint32_t kStep = 3, kMicroBatch = 1;

Form stateless(Form form) {
  form.states = false;
  return form;
}

// The inputs in order: x, h0 [L·D,N,P] and c0 [L·D,N,H] where there are states, then the parameters of each
// layer and direction in the order of a form.
Shapes shapes_of(const Stack& stack, const Sizes& n) {
  const Index outputs = stack.layer.projection ? n.outputs : n.units;
  Shapes shapes{{n.steps, n.rows, n.inputs}};
  if (stack.layer.states) shapes.push_back({stack.cells(), n.rows, outputs});
  if (stack.layer.states && is_lstm(stack.layer)) shapes.push_back({stack.cells(), n.rows, n.units});
  for (Index cell = 0; cell < stack.cells(); ++cell) {
    Sizes own = n;
    if (cell >= stack.directions()) own.inputs = stack.directions() * outputs;
    const Shapes of_cell = shapes_of(stateless(stack.layer), own);
    shapes.insert(shapes.end(), of_cell.begin() + 1, of_cell.end());
  }
  return shapes;
}

std::vector<Draw> draws_of(const Stack& stack) {
  const std::vector<Draw> of_cell = draws_of(stateless(stack.layer));
  std::vector<Draw> draws{of_cell.front()};
  if (stack.layer.states) draws.push_back({.low = -1, .high = 1});
  if (stack.layer.states && is_lstm(stack.layer)) draws.push_back({.low = -1, .high = 1, .parameter = true});
  for (Index cell = 0; cell < stack.cells(); ++cell)
    draws.insert(draws.end(), of_cell.begin() + 1, of_cell.end());
  return draws;
}

// The parameters of a cell, from what a stack is given.
template <class List>
List cell_of(const Stack& stack, const List& in, Index cell) {
  const std::ptrdiff_t states = stack.layer.states ? is_lstm(stack.layer) ? 2 : 1 : 0;
  const std::ptrdiff_t each = (static_cast<std::ptrdiff_t>(in.size()) - 1 - states) / stack.cells();
  const auto first = in.begin() + 1 + states + cell * each;
  return List(first, first + each);
}

Run run_of(const Stack& stack) {
  return [stack](const TensorList& in) {
    const Positions at(stateless(stack.layer));
    std::vector<RnnWeights> weights;
    for (Index cell = 0; cell < stack.cells(); ++cell) {
      TensorList own = cell_of(stack, in, cell);
      own.insert(own.begin(), Tensor());
      weights.push_back({own[1], own[2], at_or_absent(own, at.bias_ih), at_or_absent(own, at.bias_hh),
                         at_or_absent(own, at.weight_hr)});
    }
    RnnState state;
    if (stack.layer.states) state.h = in[1];
    if (stack.layer.states && is_lstm(stack.layer)) state.c = in[2];
    RnnStack options{.cell = stack.layer.cell,
                     .bidirectional = stack.bidirectional,
                     .recompute = stack.layer.recompute,
                     .dropout = stack.dropout};
    if (!stack.layer.lengths.empty()) options.lengths = lengths_of(stack.layer.lengths);
    const RandomScope random(kSeed, kStep, kMicroBatch);
    return flat(rnn_stack(in[0], state, weights, options));
  };
}

// What lies between two layers, of which the upper one is number `layer` from 0: a mask of its own.
void drop(Array& x, double p, Index layer) {
  if (p == 0.0) return;
  const RandomKey key{.seed = kSeed,
                      .purpose = RandomPurpose::dropout,
                      .call = static_cast<std::uint32_t>(layer - 1),
                      .step = kStep,
                      .micro_batch = kMicroBatch};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::uint32_t word = philox(key, static_cast<std::uint32_t>(i / 4))[i % 4];
    x.values[i] = word >= p * 0x1p32 ? x.values[i] / (1 - p) : 0.0;
  }
}

// Layer number `index` of an array of equals.
Array part_of(const Array& all, Index index) {
  Array part({all.shape[1], all.shape[2]});
  for (Index i = 0; i < part.shape[0]; ++i)
    for (Index j = 0; j < part.shape[1]; ++j) part(i, j) = all(index, i, j);
  return part;
}

Oracle oracle_of(const Stack& stack) {
  return [stack](const Arrays& in) {
    Array x = in[0];
    const Index steps = x.shape[0], rows = x.shape[1];
    std::vector<double> h, c;
    for (Index layer = 0; layer < stack.layers; ++layer) {
      if (layer > 0) drop(x, stack.dropout, layer);
      Array next;
      for (Index d = 0; d < stack.directions(); ++d) {
        const Index index = layer * stack.directions() + d;
        Form form = stack.layer;
        form.reverse = d == 1;
        Arrays own = cell_of(stack, in, index);
        own.insert(own.begin(), x);
        const Index outputs = own[2].shape[1];
        if (form.states && is_lstm(form)) own.insert(own.begin() + 3, part_of(in[2], index));
        if (form.states) own.insert(own.begin() + 3, part_of(in[1], index));
        const std::vector<double> all = oracle_of(form)(own).values;
        if (d == 0) next = Array({steps, rows, stack.directions() * outputs});
        for (Index i = 0; i < steps * rows; ++i)
          for (Index p = 0; p < outputs; ++p)
            next.values[static_cast<std::size_t>(i * next.shape[2] + d * outputs + p)] =
                all[static_cast<std::size_t>(i * outputs + p)];
        const auto h_n = all.begin() + steps * rows * outputs, c_n = h_n + rows * outputs;
        h.insert(h.end(), h_n, c_n);
        c.insert(c.end(), c_n, all.end());
      }
      x = std::move(next);
    }
    std::vector<double> all = x.values;
    all.insert(all.end(), h.begin(), h.end());
    all.insert(all.end(), c.begin(), c.end());
    const auto count = static_cast<Index>(all.size());
    return Array({count}, std::move(all));
  };
}

// Whether second derivatives are taken: long ones, of all inputs by all inputs, and a composition of those of
// layers.
bool twice(const Stack& stack) {
  return stack.dropout > 0.0 && stack.layer.lengths.empty() && !stack.layer.projection;
}

std::vector<Sizes> sizes_of(const Stack& stack) {
  const auto rows = static_cast<Index>(stack.layer.lengths.size());
  const Index units = stack.layer.projection ? 3 : 2;
  if (rows > 0) return {{3, rows, 1, units, 2}};
  std::vector<Sizes> sizes{{3, 2, 1, units, 2}, {1, 1, 2, units, 2}};
  if (twice(stack)) sizes.push_back({2, 1, 1, 1, 1});
  return sizes;
}

Row row_of(const Stack& stack) {
  Row row{.op = op_of(stack.layer.cell),
          .variant = stack.layer.name,
          .run = run_of(stack),
          .oracle = oracle_of(stack),
          .cases = {},
          .draws = draws_of(stack)};
  for (const Sizes& n : sizes_of(stack)) row.cases.push_back(shapes_of(stack, n));
  row.wide_output = 2;  // c_n
  row.normalised = true;
  row.slack = 2.0 * static_cast<double>(stack.layers);  // each layer takes up the rounding of those below
  row.twice = twice(stack);
  return row;
}

std::vector<Stack> stacks() {
  std::vector<Stack> all;
  for (const bool bidirectional : {false, true}) {
    for (const bool projection : {false, true}) {
      for (const bool lengths : {false, true}) {
        for (const double dropout : {0.0, 0.4}) {
          std::string name = bidirectional ? "2 layers, bidirectional" : "2 layers";
          Form form{.projection = projection};
          if (projection) name += ", projected";
          if (lengths) {
            name += ", lengths";
            form.lengths = projection ? std::vector<std::int64_t>{0, 2} : std::vector<std::int64_t>{3, 0, 1};
          }
          if (dropout > 0) name += ", dropout";
          form.name = name;
          all.push_back({.layer = form, .bidirectional = bidirectional, .dropout = dropout});
        }
      }
    }
  }
  const auto other = [&](RnnCell cell, const std::string& name) {
    all.push_back({.layer = {.name = std::string(name_of(cell)) + name, .cell = cell, .lengths = {2, 3}},
                   .bidirectional = true,
                   .dropout = 0.4});
  };
  other(RnnCell::gru, ", 2 layers, bidirectional, lengths, dropout");
  other(RnnCell::rnn_tanh, ", 2 layers, bidirectional, lengths, dropout");
  all.push_back({.layer = {.name = "1 layer, bidirectional, lengths", .lengths = {1, 3}},
                 .layers = 1,
                 .bidirectional = true,
                 .dropout = 0.4});  // which lies between layers
  all.push_back({.layer = {.name = "3 layers, bare, recomputed, dropout",
                           .states = false,
                           .biases = false,
                           .recompute = true},
                 .layers = 3,
                 .dropout = 0.3});
  return all;
}

Tensor of(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::zeros(shape, {.dtype = dtype, .device = test_device()});
}

std::vector<Refusal> refusals() {
  return {{"[lstm] x must be floating [T,N,I], got f32[2,3]",
           CALL(rnn_layer(of({2, 3}), {}, {of({4, 3}), of({4, 1})}))},
          {"[lstm] x f32[0,2,3] has no steps", CALL(rnn_layer(of({0, 2, 3}), {}, {of({4, 3}), of({4, 1})}))},
          {"[lstm] weight_hh must be [4·H,P], got f32[6,1]",
           CALL(rnn_layer(of({2, 2, 3}), {}, {of({6, 3}), of({6, 1})}))},
          {"[lstm] weight_ih must be floating [4,3], got f32[4,2]",
           CALL(rnn_layer(of({2, 2, 3}), {}, {of({4, 2}), of({4, 1})}))},
          {"[lstm] weight_hh [8,1] expects 1 outputs of 2 units: weight_hr is absent",
           CALL(rnn_layer(of({2, 2, 3}), {}, {of({8, 3}), of({8, 1})}))},
          {"[lstm] a projection must have fewer outputs than units, got 2 of 2",
           CALL(rnn_layer(of({2, 2, 3}), {}, {of({8, 3}), of({8, 2}), {}, {}, of({2, 2})}))},
          {"[lstm] h_0 must be floating [2,1], got f32[3,1]",
           CALL(rnn_layer(of({2, 2, 3}), {of({3, 1}), {}}, {of({4, 3}), of({4, 1})}))},
          {"[lstm] length 3 of row 1 lies outside [0,2]",
           CALL(rnn_layer(of({2, 2, 3}), {}, {of({4, 3}), of({4, 1})}, {.lengths = lengths_of({2, 3})}))},
          {"[lstm] length -1 of row 0 lies outside [0,2]",
           CALL(rnn_layer(of({2, 2, 3}), {}, {of({4, 3}), of({4, 1})}, {.lengths = lengths_of({-1, 2})}))},
          {"[lstm] lengths must be i64 [2] in host memory",
           CALL(rnn_layer(of({2, 2, 3}), {}, {of({4, 3}), of({4, 1})}, {.lengths = lengths_of({2})}))}};
}

}  // namespace

Rows tandem::test::rnn_rows() {
  Rows rows;
  for (const Form& form : forms()) rows.push_back(row_of(form));
  // A stack is layers, of which a device has proved every form: of them it gets those with most parts.
  const bool host = test_device().type == DeviceType::cpu;
  for (const Stack& stack : stacks()) {
    if (host || (stack.dropout > 0.0 && stack.layer.projection && !stack.layer.lengths.empty()))
      rows.push_back(row_of(stack));
  }
  rows.front().refusals = refusals();
  return rows;
}
