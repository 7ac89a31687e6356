// A network as an ONNX model, opset 17, IR version 8 (https://onnx.ai/onnx/repo-docs/IR.html).
//
// The graph is that of the ops of one traced forward (export/trace.h), not of the modules: what
// Sequential, Graph, residual blocks and modules outside of this tree do is ops in the end, so ops are all
// that has to be known (onnx_layers, onnx_elementwise, onnx_shapes), and a fused op such as
// batch norm with residual and activation becomes the nodes it stands for.
//
// Layouts: images are [N,H,W,C] here and NCHW in ONNX. Each tensor carries the order in which its axes stand
// there; ops that need another one get a Transpose, ops that reorder axes only change the order. Weights are
// the FP32 masters in PyTorch's layouts under PyTorch's names, as in files of weights, but for those of
// recurrent layers, which ONNX has in an order of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/exported.h"
#include "nn/module.h"

namespace tandem::exporting {

struct OnnxOptions {
  std::string producer_version{};
  std::map<std::string, std::string> metadata{};  // metadata_props
  DType dtype = DType::f32;                       // of the samples: f32, or i64 indices
  // Names; empty: of the input by what it is (see below), of the one output "logits".
  std::string input{};
  std::vector<std::string> outputs{};
  nn::Forward graph{};  // what is written, of the model's parameters; empty: the model's own call
  // Adds a last output "selected", i64 [M,3]: image, class and anchor of each box that stays, by ONNX's
  // NonMaxSuppression.
  std::optional<nn::Suppression> suppression{};
};

// The bytes of a .onnx file. Its input is f32 "images" [N,C,H,W] for samples [H,W,C], else f32 "features" or
// i64 "indices" in the sample's own layout; its output is f32 "logits" in the layout here; "N" is free. Those
// of a model with ports (nn/ports.h) are its ports, with "T" free, too; `sample`, `dtype` and names are not
// looked at then. The model is evaluated and lies on the CPU; its modes and gradients stay as they are.
// Throws UserError, naming the layer, for an op that has no counterpart, and when the file would exceed the 2
// GiB of the format.
std::string onnx_model(nn::Module& model, const Shape& sample, const OnnxOptions& options = {});

// Names of the ops that have a counterpart, sorted.
std::vector<std::string> onnx_ops();

}  // namespace tandem::exporting
