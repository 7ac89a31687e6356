#include "nn/layers/recurrent.h"

#include <cmath>

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
          "a projection gives fewer outputs than there are units, got {} of {}", options.projection, units);
  require(options.dropout >= 0.0 && options.dropout < 1.0, name, "a probability in [0, 1) is needed, got {}",
          options.dropout);
  for (Index layer = 0; layer < options.layers; ++layer) {
    const std::string suffix = "_l" + std::to_string(layer);
    layers_.push_back(add_layer(suffix, layer == 0 ? inputs : outputs()));
    if (options.bidirectional)
      layers_.push_back(add_layer(suffix + "_reverse", layer == 0 ? inputs : outputs()));
  }
}

Index Recurrent::outputs() const {
  return (options_.bidirectional ? 2 : 1) * (options_.projection > 0 ? options_.projection : units_);
}

Recurrent::Layer Recurrent::add_layer(const std::string& suffix, Index inputs) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(units_));
  const auto drawn = [&](const char* name, const Shape& shape) {
    const Tensor memory = parameter_memory(shape);
    init::uniform(memory, -bound, bound);
    return add_parameter(name + suffix, Parameter(memory));
  };
  const Index gates = gates_of(options_.cell) * units_;
  Layer layer;
  layer.weight_ih = drawn("weight_ih", {gates, inputs});
  layer.weight_hh = drawn("weight_hh", {gates, options_.projection > 0 ? options_.projection : units_});
  if (options_.bias) {
    layer.bias_ih = drawn("bias_ih", {gates});
    layer.bias_hh = drawn("bias_hh", {gates});
  }
  if (options_.projection > 0) layer.weight_hr = drawn("weight_hr", {options_.projection, units_});
  return layer;
}

Tensor Recurrent::forward(const Tensor& x) { return run(x, {}, {}).y; }

RnnResult Recurrent::operator()(const Tensor& x, const RnnState& state, const Tensor& lengths) {
  return observed([&] { return run(x, state, lengths); });
}

RnnResult Recurrent::run(const Tensor& x, const RnnState& state, const Tensor& lengths) {
  std::vector<RnnWeights> weights;
  for (const Layer& layer : layers_) {
    weights.push_back({layer.weight_ih.tensor(), layer.weight_hh.tensor(), tensor_if_defined(layer.bias_ih),
                       tensor_if_defined(layer.bias_hh), tensor_if_defined(layer.weight_hr)});
  }
  return rnn_stack(x, state, weights,
                   {.cell = options_.cell,
                    .bidirectional = options_.bidirectional,
                    .recompute = options_.recompute,
                    .dropout = options_.dropout,
                    .training = training(),
                    .lengths = lengths});
}

std::string Recurrent::describe() const {
  std::string text = fmt::format("Recurrent({}, {} → {}", name_of(options_.cell), inputs_, units_);
  if (options_.projection > 0) text += fmt::format(" → {}", options_.projection);
  if (options_.layers > 1) text += fmt::format(", {} layers", options_.layers);
  if (options_.bidirectional) text += ", both directions";
  if (!options_.bias) text += ", no bias";
  if (options_.dropout > 0.0) text += fmt::format(", dropout {}", options_.dropout);
  if (options_.recompute) text += ", recomputed";
  return text + ")";
}

}  // namespace tandem::nn
