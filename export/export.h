// The weights of a run as files that other programs read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/transforms/pipeline.h"
#include "nn/module.h"
#include "train/setup.h"

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

// What a program has to do to an image of any size before the network takes it, and what the logits mean;
// goes into the metadata of ONNX files. docs/export.md describes the keys, with a program that follows them.
//
//   tandem.input          {"layout": "NCHW", "shape": [3,224,224], "channels": "RGB", "unit": 255, "steps":
//   […]} tandem.mean, .std     [0.4914, …], per channel: x = (pixel / unit - mean) / std tandem.class_names
//   ["airplane", …], in the order of the logits; [] where unknown
//
// Features have the layout "rows"; indices, integers that are taken as they are, have "indices".
std::map<std::string, std::string> preprocessing(const tasks::DataDescription& data,
                                                 const std::vector<datasets::TransformSpec>& augment);

struct ExportRequest {
  Format format = Format::safetensors;
  std::string path;
  Shape sample;                                   // what the model takes, without the batch
  DType dtype = DType::f32;                       // and its type
  std::map<std::string, std::string> metadata{};  // of an ONNX file
};

// Replaces the file as a whole. The model lies on the CPU. Throws UserError as onnx_model does, Error when
// the file cannot be written.
void write_export(nn::Module& model, const ExportRequest& request);

}  // namespace tandem::exporting
