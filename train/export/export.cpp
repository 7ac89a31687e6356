#include "train/export/export.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/suggest.h"
#include "data/npy.h"
#include "train/build_info.h"
#include "train/export/onnx.h"
#include "train/files.h"
#include "train/weights.h"

namespace tandem::exporting {

namespace {

constexpr std::array kFormats{Format::safetensors, Format::npz, Format::onnx};

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// 0.3053 and not 0.30529999732971191, which is the same float.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

// "resize(shorter=256)"
std::string text_of(const datasets::TransformSpec& spec) {
  std::vector<std::string> parameters;
  for (const auto& [name, values] : spec.parameters)
    parameters.push_back(fmt::format("{}={}", name, fmt::join(values, ",")));
  return fmt::format("{}({})", spec.name, fmt::join(parameters, ", "));
}

std::string npz_of(nn::Module& model) {
  std::vector<datasets::NamedArray> arrays;
  for (const auto& [name, tensor] : train::weights_of(model)) arrays.push_back({name, tensor});
  return datasets::npz_file(arrays);
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
  throw UserError("", fmt::format("--format {}: there is no such format; there are {}{}", name,
                                  fmt::join(format_names(), ", "), did_you_mean(name, format_names())));
}

std::map<std::string, std::string> preprocessing(const train::DataDescription& data,
                                                 const datasets::Pipeline& pipeline,
                                                 const std::vector<datasets::TransformSpec>& evaluation) {
  const bool indices = pipeline.output_dtype() == DType::i64;
  const bool image = pipeline.output_shape().rank() == 3 && !indices;
  const float unit = data.info.dtype == DType::u8 ? 255.0F : 1.0F;
  const datasets::Affine& affine = pipeline.affine();
  Json mean = Json::array(), stddev = Json::array();
  for (std::size_t c = 0; c < affine.scale.size(); ++c) {  // x = pixel·scale + offset
    const float deviation = 1.0F / (affine.scale[c] * unit);
    stddev.push_back(shortest(deviation));
    mean.push_back(shortest(0.0F - affine.offset[c] * deviation));
  }
  Json input{{"layout", image     ? "NCHW"
                        : indices ? "indices"
                                  : "rows"},
             {"unit", unit},
             {"transforms", Json::array()}};
  for (const auto& spec : evaluation)
    if (datasets::transform_info(spec.name).stage == datasets::TransformStage::sample)
      input["transforms"].push_back(text_of(spec));
  return {{"tandem.input", dumped(input)},
          {"tandem.mean", dumped(mean)},
          {"tandem.std", dumped(stddev)},
          {"tandem.class_names", dumped(data.info.class_names)}};
}

void write_export(nn::Module& model, const ExportRequest& request) {
  switch (request.format) {
    case Format::safetensors:
      return train::save_weights(model, request.path, {{"format", "pt"}});
    case Format::npz:
      return train::write_atomically(request.path, npz_of(model));
    case Format::onnx:
      return train::write_atomically(
          request.path,
          onnx_model(model, request.sample,
                     {.producer_version = version(), .metadata = request.metadata, .dtype = request.dtype}));
  }
}

}  // namespace tandem::exporting
