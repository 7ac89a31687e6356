#include "nn/layers/recurrent.h"

#include <cmath>

#include "autograd/ops/random.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "nn/init.h"

namespace tandem::nn {

Recurrent::Recurrent(Index inputs, Index units, const RecurrentOptions& options)
    : inputs_(inputs), units_(units), options_(options) {
  const char* name = name_of(options.cell);
  require(inputs > 0 && units > 0 && options.layers > 0, name,
          "inputs, units and layers must be positive, got {}, {} and {}", inputs, units, options.layers);
  require(options.projection == 0 || options.cell == RnnCell::lstm, name, "only lstm has a projection");
  require(options.projection >= 0 && options.projection < units, name,
          "a projection must have fewer outputs than units, got {} of {}", options.projection, units);
  require(options.dropout >= 0.0 && options.dropout < 1.0, name, "dropout must lie in [0, 1), got {}",
          options.dropout);
  require(options.weight_dropout >= 0.0 && options.weight_dropout < 1.0, name,
          "weight_dropout must lie in [0, 1), got {}", options.weight_dropout);
  require(
      options.last_units == 0 || (options.last_units > 0 && options.last_units <= units &&
                                  options.layers > 1 && !options.bidirectional && options.projection == 0),
      name,
      "last_units must be at most the units of the earlier layers ({}), in one direction and without "
      "projection, "
      "got {} with {} layer(s)",
      units, options.last_units, options.layers);
  const Index above = (options.bidirectional ? 2 : 1) * (options.projection > 0 ? options.projection : units);
  for (Index layer = 0; layer < options.layers; ++layer) {
    const std::string suffix = "_l" + std::to_string(layer);
    const Index own = is_uneven() && layer + 1 == options.layers ? options.last_units : units;
    layers_.push_back(add_layer(suffix, layer == 0 ? inputs : above, own));
    if (options.bidirectional)
      layers_.push_back(add_layer(suffix + "_reverse", layer == 0 ? inputs : above, own));
  }
}

Index Recurrent::outputs() const {
  if (is_uneven()) return options_.last_units;
  return (options_.bidirectional ? 2 : 1) * (options_.projection > 0 ? options_.projection : units_);
}

Recurrent::Layer Recurrent::add_layer(const std::string& suffix, Index inputs, Index units) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(units));
  const auto drawn = [&](const char* name, const Shape& shape) {
    const Tensor memory = parameter_memory(shape);
    init::uniform(memory, -bound, bound);
    return add_parameter(name + suffix, Parameter(memory));
  };
  const Index gates = gates_of(options_.cell) * units;
  Layer layer;
  layer.weight_ih = drawn("weight_ih", {gates, inputs});
  layer.weight_hh = drawn("weight_hh", {gates, options_.projection > 0 ? options_.projection : units});
  if (options_.bias) {
    layer.bias_ih = drawn("bias_ih", {gates});
    layer.bias_hh = drawn("bias_hh", {gates});
  }
  if (options_.projection > 0) layer.weight_hr = drawn("weight_hr", {options_.projection, units});
  return layer;
}

Tensor Recurrent::forward(const Tensor& x) { return run(x, {}, {}).y; }

RnnResult Recurrent::operator()(const Tensor& x, const RnnState& state, const Tensor& lengths) {
  return observed([&] { return run(x, state, lengths); });
}

Tensor Recurrent::drop(const Tensor& x) const {
  return options_.locked ? locked_dropout(x, options_.dropout, training())
                         : dropout(x, options_.dropout, training());
}

RnnResult Recurrent::run_layers(const Tensor& x, const RnnState& state, const Tensor& lengths, Index first,
                                Index count) {
  std::vector<RnnWeights> weights;
  const Index directions = options_.bidirectional ? 2 : 1;
  for (Index i = first * directions; i < (first + count) * directions; ++i) {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    weights.push_back({layer.weight_ih.tensor(),
                       dropout(layer.weight_hh.tensor(), options_.weight_dropout, training()),
                       tensor_if_defined(layer.bias_ih), tensor_if_defined(layer.bias_hh),
                       tensor_if_defined(layer.weight_hr)});
  }
  return rnn_stack(x, state, weights,
                   {.cell = options_.cell,
                    .bidirectional = options_.bidirectional,
                    .recompute = options_.recompute,
                    .dropout = options_.dropout,
                    .training = training(),
                    .lengths = lengths});
}

namespace {

// The part of states [L·D,N,H] that belongs to layers of `units`, and the inverse: padded to H.
Tensor part_of(const Tensor& states, Index first, Index count, Index units) {
  if (!states.defined()) return {};
  return slice(slice(states, 0, first, first + count), 2, 0, units);
}
Tensor widened(const Tensor& state, Index units) {
  const Index missing = units - state.size(2);
  return missing == 0 ? state : pad(state, {0, 0, 0}, {0, 0, missing});
}

}  // namespace

RnnResult Recurrent::run(const Tensor& x, const RnnState& state, const Tensor& lengths) {
  if (!options_.locked && !is_uneven()) return run_layers(x, state, lengths, 0, options_.layers);
  const Index directions = options_.bidirectional ? 2 : 1;
  const Index wide = options_.projection > 0 ? options_.projection : units_;
  require(!state.h.defined() || (state.h.rank() == 3 && state.h.size(0) == options_.layers * directions),
          name_of(options_.cell), "states must be [{},N,H], one for each layer and direction, got {}",
          options_.layers * directions, to_string(state.h));
  RnnResult result{.y = x, .state = {}};
  TensorList h, c;
  for (Index layer = 0; layer < options_.layers; ++layer) {
    const bool narrow = is_uneven() && layer + 1 == options_.layers;
    const Index units = narrow ? options_.last_units : units_;
    const RnnState own{part_of(state.h, layer * directions, directions, narrow ? units : wide),
                       part_of(state.c, layer * directions, directions, units)};
    result = run_layers(layer == 0 ? result.y : drop(result.y), own, lengths, layer, 1);
    h.push_back(widened(result.state.h, wide));
    if (result.state.c.defined()) c.push_back(widened(result.state.c, units_));
  }
  return {result.y, {concat(h, 0), c.empty() ? Tensor() : concat(c, 0)}};
}

std::string Recurrent::describe() const {
  std::string text = fmt::format("Recurrent({}, {} → {}", name_of(options_.cell), inputs_, units_);
  if (options_.projection > 0) text += fmt::format(" → {}", options_.projection);
  if (options_.layers > 1) text += fmt::format(", {} layers", options_.layers);
  if (options_.bidirectional) text += ", both directions";
  if (!options_.bias) text += ", no bias";
  if (is_uneven()) text += fmt::format(", the last of {}", options_.last_units);
  if (options_.dropout > 0.0)
    text += fmt::format(", {}dropout {}", options_.locked ? "locked " : "", options_.dropout);
  if (options_.weight_dropout > 0.0) text += fmt::format(", dropout of weights {}", options_.weight_dropout);
  if (options_.recompute) text += ", recomputed";
  return text + ")";
}

}  // namespace tandem::nn
