// The networks of the export tests: hashed weights and statistics, so that only results have to be stored.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/builder.h"
#include "models/dcgan.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "models/unet.h"
#include "models/vit.h"
#include "tests/golden/hashed.h"

namespace tandem {

struct ExportCase {
  std::string name;
  Shape sample;  // as the model takes it: [H,W,C] or [D]
  nn::ModulePtr model;
  DType dtype = DType::f32;  // of the samples; i64: indices below kVocabulary
  int opset = 17;
};

inline constexpr Index kVocabulary = 11;

// What training could have left in the running statistics.
inline void set_statistics(nn::Module& model) {
  for (const nn::Statistic& statistic : model.statistics()) {
    const bool variance = statistic.name.ends_with("var");
    const Tensor values = signed_unit(statistic.name, statistic.live.shape());
    float* at = values.data<float>();
    for (Index i = 0; i < values.numel(); ++i) at[i] = variance ? 1.0f + 0.5f * at[i] : 0.25f * at[i];
    backend_for(Device{}).copy_bytes(values, statistic.live);
  }
}

inline ExportCase export_case(std::string name, const Shape& sample, nn::ModulePtr model,
                              DType dtype = DType::f32) {
  set_initial(*model);
  set_statistics(*model);
  model->eval();
  return {std::move(name), sample, std::move(model), dtype};
}

// The same network at opset 23.
inline ExportCase at_23(ExportCase each) {
  each.name += "_23";
  each.opset = 23;
  return each;
}

inline nn::ModulePtr layers_model(const char* layers, const Shape& sample, DType dtype = DType::f32) {
  return models::build(nlohmann::json::parse(layers), {.sample = sample, .dtype = dtype, .classes = 10});
}

// Every kind of layer that has a counterpart in ONNX and is not in the models by name.
inline const char* const kImageLayers = R"({"layers": [
  {"type": "conv2d", "name": "a", "out_channels": 8, "kernel": 3, "padding": "same", "dilation": 2},
  {"type": "prelu", "per_channel": true},
  {"type": "conv2d", "out_channels": 8, "kernel": [3, 1], "stride": [2, 1], "padding": [1, 0], "groups": 4},
  {"type": "group_norm", "groups": 2},
  {"type": "silu", "name": "b"},
  {"type": "avg_pool2d", "inputs": ["a"], "kernel": [2, 3], "stride": [2, 1], "padding": [0, 1],
   "count_include_pad": false},
  {"type": "hardswish", "name": "c"},
  {"type": "concat", "name": "d", "inputs": ["b", "c"]},
  {"type": "batch_norm", "name": "e", "relu": true, "inputs": ["d", "d"]},
  {"type": "upsample", "scale": 2, "mode": "bilinear"},
  {"type": "leaky_relu"},
  {"type": "avg_pool2d", "kernel": 2, "padding": 1, "name": "f"},
  {"type": "conv_transpose2d", "inputs": ["e"], "out_channels": 8, "kernel": 3, "stride": 2, "padding": 1,
   "output_padding": 1},
  {"type": "softplus", "beta": 2.0, "threshold": 1.0},
  {"type": "max_pool2d", "kernel": 3, "stride": 2, "padding": 1},
  {"type": "upsample", "size": [9, 11], "name": "g"},
  {"type": "upsample", "inputs": ["f"], "size": [9, 11], "mode": "bilinear", "align_corners": true},
  {"type": "conv2d", "out_channels": 8, "kernel": 1, "bias": false},
  {"type": "batch_norm", "affine": false, "name": "h"},
  {"type": "add", "relu": true, "inputs": ["g", "h", "h"]},
  {"type": "softmax", "axis": -1},
  {"type": "layer_norm", "axes": 2},
  {"type": "linear", "out_features": 6},
  {"type": "gelu"},
  {"type": "upsample", "size": [4, 6]},
  {"type": "adaptive_avg_pool2d", "size": [2, 3]},
  {"type": "flatten", "order": "hwc"},
  {"type": "dropout", "p": 0.5},
  {"type": "linear", "out_features": 10},
  {"type": "identity"}]})";

inline const char* const kSequenceLayers = R"({"layers": [
  {"type": "reshape", "shape": [12, 4]},
  {"type": "conv1d", "out_channels": 6, "kernel": 3, "padding": "same", "dilation": 2},
  {"type": "batch_norm"},
  {"type": "gelu", "form": "tanh"},
  {"type": "conv1d", "out_channels": 4, "kernel": 4, "stride": 2, "groups": 2, "bias": false},
  {"type": "elu", "alpha": 0.5},
  {"type": "layer_norm"},
  {"type": "linear", "out_features": 5},
  {"type": "tanh"},
  {"type": "prelu", "per_channel": true},
  {"type": "log_softmax", "axis": 1},
  {"type": "flatten"},
  {"type": "sigmoid"},
  {"type": "linear", "out_features": 10, "bias": false}]})";

inline const char* const kAttentionLayers = R"({"layers": [
  {"type": "reshape", "shape": [12, 4]},
  {"type": "linear", "out_features": 8, "name": "x"},
  {"type": "layer_norm"},
  {"type": "self_attention", "heads": 2},
  {"type": "add", "inputs": ["x", "3"], "name": "y"},
  {"type": "self_attention", "heads": 4, "causal": true, "bias": false, "dropout": 0.25},
  {"type": "flatten"},
  {"type": "linear", "out_features": 10}]})";

// Windows of several sizes, fewer and more than pixels, and factors that give no whole size.
inline const char* const kUnevenLayers = R"({"layers": [
  {"type": "conv2d", "out_channels": 4, "kernel": 3},
  {"type": "upsample", "scale": 1.3, "mode": "bilinear", "recompute_scale_factor": false},
  {"type": "upsample", "scale": 0.7, "recompute_scale_factor": false},
  {"type": "upsample", "scale": 1.7},
  {"type": "adaptive_avg_pool2d", "size": [5, 7]},
  {"type": "adaptive_avg_pool2d", "size": [5, 3]},
  {"type": "adaptive_avg_pool2d", "size": [7, 2]},
  {"type": "flatten"},
  {"type": "linear", "out_features": 10}]})";

inline const char* const kIndexLayers = R"({"layers": [
  {"type": "embedding", "name": "table", "count": 11, "dim": 6, "padding_index": 0},
  {"type": "conv1d", "out_channels": 8, "kernel": 3, "padding": "same"},
  {"type": "relu6"},
  {"type": "conv1d", "out_channels": 8, "kernel": 3, "padding": "same"},
  {"type": "hardsigmoid"},
  {"type": "flatten"},
  {"type": "linear", "out_features": 10}]})";

inline std::vector<ExportCase> export_cases() {
  using models::ResNetLayout;
  const Shape image{24, 20, 3}, row{48};
  std::vector<ExportCase> cases;
  cases.push_back(export_case("lenet5", {28, 28, 1}, models::lenet5({})));
  cases.push_back(export_case(
      "mlp", {6, 5, 3},
      models::mlp({.in_features = 90, .hidden = {32, 16}, .num_classes = 10, .batch_norm = true})));
  cases.push_back(export_case(
      "resnet20", {16, 16, 1},
      models::resnet(
          20,
          {.in_channels = 1, .num_classes = 10, .width = 4, .shortcut = models::ResNetShortcut::padding})));
  cases.push_back(
      export_case("bottleneck", {33, 40, 3},
                  std::make_shared<models::ResNet>(ResNetLayout{.blocks = {2, 1, 1, 1}, .bottleneck = true},
                                                   models::ResNetOptions{.num_classes = 10, .width = 4})));
  cases.push_back(export_case("images", image, layers_model(kImageLayers, image)));
  cases.push_back(export_case("sequences", row, layers_model(kSequenceLayers, row)));
  cases.push_back(export_case("attention", row, layers_model(kAttentionLayers, row)));
  const Shape small{11, 14, 2}, words{9};
  cases.push_back(export_case("uneven", small, layers_model(kUnevenLayers, small)));
  const Shape scene{24, 16, 2};
  cases.push_back(export_case("unet", scene,
                              std::make_shared<models::UNet>(models::UNetOptions{
                                  .in_channels = 2, .num_classes = 10, .width = 4, .levels = 2})));
  cases.push_back(export_case("indices", words, layers_model(kIndexLayers, words, DType::i64), DType::i64));
  const models::DcganOptions gan{.image_size = 16, .channels = 3, .noise = 20, .width = 8};
  cases.push_back(export_case("generator", {1, 1, 20}, models::dcgan_generator(gan)));
  cases.push_back(export_case("discriminator", {16, 16, 3}, models::dcgan_discriminator(gan)));
  const models::VitOptions vit{
      .num_classes = 10, .image = {12, 8}, .patch = 4, .layers = 2, .width = 8, .heads = 2};
  cases.push_back(export_case("vit", {12, 8, 3}, std::make_shared<models::Vit>(vit)));
  for (const char* const name : {"vit", "attention", "sequences", "images", "uneven"})
    cases.push_back(at_23(*std::ranges::find(cases, name, &ExportCase::name)));
  return cases;
}

}  // namespace tandem
