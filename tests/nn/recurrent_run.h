// One recurrent layer in one direction with random weights, run forward and backward, with all results.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rnn.h"
#include "tests/support/tensors.h"

namespace tandem::test {

// One layer in one direction with all that it may have.
struct RecurrentLayer {
  RnnCell cell = RnnCell::lstm;
  Index steps = 3, rows = 3, inputs = 5, units = 19, outputs = 19;
  bool reverse = false, ragged = false;
  DType dtype = DType::f32;

  std::string text() const {
    return std::string(name_of(cell)) + " " + std::string(tandem::name_of(dtype)) + ", " +
           std::to_string(steps) + " steps" + (outputs < units ? ", projected" : "") +
           (reverse ? ", reversed" : "") + (ragged ? ", lengths" : "");
  }
  Tensor lengths() const {
    if (!ragged) return {};
    return Tensor::from(std::vector<std::int64_t>{steps, (steps + 1) / 2, std::min<Index>(steps, 1)}, {3});
  }
};

// Results, gradients, and the node that holds what was saved.
struct RecurrentOutcome {
  std::vector<double> y, h, c, dx, dh, dc;
  std::vector<std::vector<double>> weights;
  TensorList saved;
};

inline RecurrentOutcome run(const RecurrentLayer& layer, bool recompute) {
  std::uint64_t seed = 1;
  const DType wide = wide_of(layer.dtype);
  const auto drawn = [&](const Shape& shape, DType dtype, double bound) {
    return leaf(random_tensor(shape, dtype, ++seed, -bound, bound));
  };
  const bool lstm = layer.cell == RnnCell::lstm;
  const Index gates = gates_of(layer.cell) * layer.units;
  const Tensor x = drawn({layer.steps, layer.rows, layer.inputs}, layer.dtype, 1.0);
  RnnState state{drawn({layer.rows, layer.outputs}, layer.dtype, 1.0), {}};
  if (lstm) state.c = drawn({layer.rows, layer.units}, wide, 1.0);
  RnnWeights w{drawn({gates, layer.inputs}, layer.dtype, 0.4),
               drawn({gates, layer.outputs}, layer.dtype, 0.3),
               drawn({gates}, wide, 0.5),
               drawn({gates}, wide, 0.5),
               {}};
  if (layer.outputs < layer.units) w.weight_hr = drawn({layer.outputs, layer.units}, layer.dtype, 0.4);
  const RnnResult result = rnn_layer(
      x, state, w,
      {.cell = layer.cell, .reverse = layer.reverse, .recompute = recompute, .lengths = layer.lengths()});
  RecurrentOutcome outcome;
  const std::span<const Tensor> saved = node_of(result.y)->saved();
  outcome.saved.assign(saved.begin(), saved.end());
  outcome.y = result.y.to_vector<double>();
  outcome.h = result.state.h.to_vector<double>();
  const auto weighted = [&](const Tensor& t) {
    return sum(cast(t, wide) * random_tensor(t.shape(), wide, ++seed));
  };
  Tensor loss = weighted(result.y) + weighted(result.state.h);
  if (lstm) {
    outcome.c = result.state.c.to_vector<double>();
    loss = loss + weighted(result.state.c);
  }
  backward(loss);
  outcome.dx = gradient_of(x).to_vector<double>();
  outcome.dh = gradient_of(state.h).to_vector<double>();
  if (lstm) outcome.dc = gradient_of(state.c).to_vector<double>();
  for (const Tensor* t : {&w.weight_ih, &w.weight_hh, &w.bias_ih, &w.bias_hh, &w.weight_hr})
    if (t->defined()) outcome.weights.push_back(gradient_of(*t).to_vector<double>());
  return outcome;
}

}  // namespace tandem::test
