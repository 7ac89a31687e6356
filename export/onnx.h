// A network as an ONNX model: opset 17, IR version 8, or opset 23, IR version 11
// (https://onnx.ai/onnx/repo-docs/IR.html).
//
// The graph has the ops of one traced forward (export/trace.h), not the modules. Sequential, residual blocks
// and modules outside of this tree consist of ops, so only ops need translations (onnx_layers,
// onnx_elementwise, onnx_shapes). A fused op, such as batch norm with residual and activation, becomes
// several nodes.
//
// Layouts: images are [N,H,W,C] here and NCHW in ONNX. Each value stores the order of its axes in ONNX; ops
// that need another order get a Transpose, ops that permute axes only change the stored order. Weights are
// the FP32 masters with PyTorch's layouts and names, as in weight files, except for recurrent layers, where
// ONNX has another order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nn/exported.h"
#include "nn/module.h"
#include "nn/ports.h"

namespace tandem::exporting {

struct OnnxOptions {
  int opset = 17;  // or 23, which has operators for attention, rotary positions, RMS norms and GELU
  std::string producer_version{};
  std::map<std::string, std::string> metadata{};  // metadata_props
  DType dtype = DType::f32;                       // of the samples: f32, or i64 indices
  // Names; empty: the default of the input (see below), and "logits" for a single output.
  std::string input{};
  std::vector<std::string> outputs{};
  nn::Forward graph{};             // the exported forward; empty: the model's own call
  std::optional<nn::Part> part{};  // the exported part of the model; absent: all of it
  // Adds a last output "selected", i64 [M,3]: image, class and anchor of each box that ONNX's
  // NonMaxSuppression keeps.
  std::optional<nn::Suppression> suppression{};
};

// The bytes of a .onnx file. Its input is f32 "images" [N,C,H,W] for samples [H,W,C], else f32 "features" or
// i64 "indices" in the sample's layout; its output is f32 "logits" in Tandem's layout; "N" is dynamic. A
// part, or a model with ports (nn/ports.h), has its ports as inputs and outputs, with "T", "P" and "S"
// dynamic as well, and ignores `sample`, `dtype` and names. The model is traced in evaluation mode and must
// be on the CPU; its modes and gradients do not change. Throws UserError with the layer for an op without
// translation, if the file would exceed the format's 2 GiB, and for another opset.
std::string onnx_model(nn::Module& model, const Shape& sample, const OnnxOptions& options = {});

// Names of the ops with a translation, sorted.
std::vector<std::string> onnx_ops();

}  // namespace tandem::exporting
