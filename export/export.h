// Export of a run's weights to files for other programs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "nn/exported.h"
#include "nn/module.h"
#include "nn/ports.h"

namespace tandem::exporting {

enum class Format : std::uint8_t {
  safetensors,  // FP32 masters, running statistics and counters under torchvision's names, {"format": "pt"}
  npz,          // the same tensors for numpy.load, without pickle
  onnx,         // the network with its weights, see export/onnx.h
};

// "safetensors", "npz", "onnx": the name on the command line and the file extension.
const char* name_of(Format format);
std::vector<std::string> format_names();
// Throws UserError with the nearest known name.
Format format_from_name(const std::string& name);

struct ExportRequest {
  Format format = Format::safetensors;
  std::string path;
  Shape sample;              // input of the model, without the batch
  DType dtype = DType::f32;  // of the input
  // For ONNX files, see OnnxOptions.
  int opset = 17;
  std::string input{};
  std::vector<std::string> outputs{};
  std::map<std::string, std::string> metadata{};
  nn::Forward graph{};
  std::optional<nn::Part> part{};
  std::optional<nn::Suppression> suppression{};
};

// Writes each file atomically, the first after all graphs have been made. The model must be on the CPU.
// Throws UserError as onnx_model, before any file is written, and Error if a file cannot be written.
void write_exports(nn::Module& model, std::span<const ExportRequest> requests);

}  // namespace tandem::exporting
