// Models from JSON: a registered name with its options, or a list of layers.
//
//   {"name": "resnet20", "num_classes": 10}
//   {"layers": [{"type": "conv2d", "out_channels": 16, "kernel": 3, "padding": "same"}, {"type": "relu"}, …]}
//   {"layers": [{"type": "conv2d", "name": "a", …}, {"type": "relu"}, {"type": "add", "inputs": ["a",
//   "input"]}]}
//
// Without "inputs" a layer takes the output of the layer before it; "input" is the model's own input. The
// result is the last layer, or the one named by "output". Numbers of input channels and features are
// inferred: each layer runs once on an empty batch. {"type": "sequential", "layers": […]} nests.
//
// If the data has named fields, layers name them among their inputs ("image", "noise"); "input" is the first.
// Outputs of a layer with several are numbered ("halves.0"), and "outputs" names several results:
//
//   {"layers": [{"type": "linear", "name": "up", "inputs": ["noise"], …},
//               {"type": "split", "name": "halves", "parts": 2}, …], "outputs": ["halves.0", "score"]}
//
// A model that takes other fields than the first, or has several results, is an nn::Graph over its named
// fields, in the order of the data, to be called by name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/registry.h"

namespace tandem::models {

// Throws OptionError, which names the place ("model.layers[3].kernel"), for unknown keys (with the nearest
// known one), types and ranges, layers that do not fit their inputs, unknown inputs, cycles, and unused
// layers. The key "input_shape" can replace `data.sample`; a list of layers needs one of them. Weights are
// drawn under the active RandomScope.
nn::ModulePtr build(const nlohmann::json& model, const DataInfo& data = {},
                    const std::string& path = "model");

// The shape of one sample's result, from a run on an empty batch in evaluation mode.
Shape output_shape(nn::Module& model, const Shape& sample, DType dtype = DType::f32);
// The same for every result, from the model's inputs in order.
std::vector<Shape> output_shapes(nn::Module& model, std::span<const FieldInfo> inputs);

}  // namespace tandem::models
