// The weights of a run as files that other programs read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "nn/exported.h"
#include "nn/module.h"

namespace tandem::exporting {

enum class Format : std::uint8_t {
  safetensors,  // FP32 masters, running statistics and counters under torchvision's names, {"format": "pt"}
  npz,          // the same tensors for numpy.load, without pickle
  onnx,         // the network with them, see export/onnx.h
};

// "safetensors", "npz", "onnx": as on the command line and as the file's extension.
const char* name_of(Format format);
std::vector<std::string> format_names();
// Throws UserError with the nearest known name.
Format format_from_name(const std::string& name);

struct ExportRequest {
  Format format = Format::safetensors;
  std::string path;
  Shape sample;              // what the model takes, without the batch
  DType dtype = DType::f32;  // and its type
  // Of an ONNX file, see OnnxOptions.
  std::string input{};
  std::vector<std::string> outputs{};
  std::map<std::string, std::string> metadata{};
  nn::Forward graph{};
  std::optional<nn::Suppression> suppression{};
};

// Replaces the file as a whole. The model lies on the CPU. Throws UserError as onnx_model does, Error when
// the file cannot be written.
void write_export(nn::Module& model, const ExportRequest& request);

}  // namespace tandem::exporting
