#include "export/export.h"

#include <fmt/ranges.h>

#include <array>

#include "core/build_info.h"
#include "core/error.h"
#include "core/suggest.h"
#include "data/npy.h"
#include "export/onnx.h"
#include "files/write.h"
#include "models/weights.h"

namespace tandem::exporting {

namespace {

constexpr std::array kFormats{Format::safetensors, Format::npz, Format::onnx};

std::string npz_of(nn::Module& model) {
  std::vector<datasets::NamedArray> arrays;
  for (const auto& [name, tensor] : models::weights_of(model)) arrays.push_back({name, tensor});
  return datasets::npz_file(arrays);
}

std::string onnx_file(nn::Module& model, const ExportRequest& request) {
  return onnx_model(model, request.sample,
                    {.opset = request.opset,
                     .producer_version = version(),
                     .metadata = request.metadata,
                     .dtype = request.dtype,
                     .input = request.input,
                     .outputs = request.outputs,
                     .graph = request.graph,
                     .part = request.part,
                     .suppression = request.suppression});
}

}  // namespace

const char* name_of(Format format) {
  switch (format) {
    case Format::safetensors:
      return "safetensors";
    case Format::npz:
      return "npz";
    case Format::onnx:
      return "onnx";
  }
  return "";
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format format : kFormats) names.emplace_back(name_of(format));
  return names;
}

Format format_from_name(const std::string& name) {
  for (const Format format : kFormats)
    if (name == name_of(format)) return format;
  throw UserError("", fmt::format("--format {}: unknown format; there are {}{}", name,
                                  fmt::join(format_names(), ", "), did_you_mean(name, format_names())));
}

void write_exports(nn::Module& model, std::span<const ExportRequest> requests) {
  std::vector<std::string> graphs;
  for (const ExportRequest& request : requests)
    if (request.format == Format::onnx) graphs.push_back(onnx_file(model, request));
  auto graph = graphs.begin();
  for (const ExportRequest& request : requests) {
    switch (request.format) {
      case Format::safetensors:
        models::save_weights(model, request.path, {{"format", "pt"}});
        break;
      case Format::npz:
        files::write_atomically(request.path, npz_of(model));
        break;
      case Format::onnx:
        files::write_atomically(request.path, *graph++);
        break;
    }
  }
}

}  // namespace tandem::exporting
