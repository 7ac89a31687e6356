// Rows of autograd/ops/rnn.h: every cell, direction, state, bias, projection and length against loops in f64.
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/rnn.h"
#include "autograd/ops/shape.h"
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

Run run_of(const Form& form) {
  return [form](const TensorList& in) {
    const Positions at(form);
    const auto optional = [&](int position) { return at_or_absent(in, position); };
    RnnOptions options{.cell = form.cell, .reverse = form.reverse, .recompute = form.recompute};
    if (!form.lengths.empty())
      options.lengths = Tensor::from(form.lengths, Shape{static_cast<Index>(form.lengths.size())});
    const RnnResult result = rnn_layer(
        in[0], {optional(at.h0), optional(at.c0)},
        {in[1], in[2], optional(at.bias_ih), optional(at.bias_hh), optional(at.weight_hr)}, options);
    TensorList parts{reshape(result.y, {-1}), reshape(result.state.h, {-1})};
    if (result.state.c.defined()) parts.push_back(reshape(result.state.c, {-1}));
    for (Tensor& part : parts) part = cast(part, result.y.dtype());
    return concat(parts, 0);
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

// Sizes on both sides of a vector of 16 units, of one of 4, of the rows of a tile, and of two steps; and more
// steps than one segment where those are what is kept.
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

Row row_of(const Form& form) {
  Row row{.op = form.cell == RnnCell::lstm  ? "lstm"
                : form.cell == RnnCell::gru ? "gru"
                                            : "rnn",
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

Tensor of(const Shape& shape, DType dtype = DType::f32) {
  return Tensor::zeros(shape, {.dtype = dtype, .device = test_device()});
}

Tensor lengths_of(std::vector<std::int64_t> lengths) {
  return Tensor::from(lengths, Shape{static_cast<Index>(lengths.size())});
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
          {"[lstm] a projection gives fewer outputs than units, got 2 of 2",
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
  rows.front().refusals = refusals();
  return rows;
}
