#include "export/export.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/build_info.h"
#include "core/error.h"
#include "core/suggest.h"
#include "data/npy.h"
#include "data/preparation.h"
#include "export/onnx.h"
#include "files/json_text.h"
#include "files/write.h"
#include "runs/weights.h"

namespace tandem::exporting {

namespace {

constexpr std::array kFormats{Format::safetensors, Format::npz, Format::onnx};

using Json = nlohmann::ordered_json;

// 0.3053 and not 0.30529999732971191, which is the same float.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

Json number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

// {"op": "resize", "size": [32, 32], "filter": "bilinear", "antialias": true}: a size has both extents, and
// what is not given has its default.
Json json_of(const datasets::TransformSpec& spec) {
  Json step{{"op", spec.name}};
  for (const auto& info : datasets::transform_info(spec.name).parameters) {
    const auto given = spec.parameters.find(info.name);
    const std::vector<double>& values = given == spec.parameters.end() ? info.defaults : given->second;
    if (info.max_count == 1) {
      if (info.name != "shorter" || values.front() > 0) step[info.name] = number(values.front());
    } else if (values.front() > 0) {
      step[info.name] = {number(values.front()), number(values.back())};
    }
  }
  if (spec.name == "resize") {
    step["filter"] = "bilinear";
    step["antialias"] = true;
  }
  return step;
}

// Of what reads image files; arrays are as they are.
Json channels_of(const datasets::DatasetInfo& info, Index channels) {
  const bool files = info.dtype == DType::u8;
  if (files && channels == 3) return "RGB";
  return files && channels == 1 ? Json("grey") : Json(channels);
}

std::string npz_of(nn::Module& model) {
  std::vector<datasets::NamedArray> arrays;
  for (const auto& [name, tensor] : runs::weights_of(model)) arrays.push_back({name, tensor});
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

std::map<std::string, std::string> preprocessing(const tasks::DataDescription& data,
                                                 const std::vector<datasets::TransformSpec>& augment) {
  const datasets::DatasetInfo& info = data.info;
  const bool image = datasets::are_images(info), indices = info.dtype == DType::i64;
  const auto steps = datasets::preparation(info, data.image_size, augment);
  datasets::DatasetInfo any = info;
  if (image) any.sample_shape = {0, 0, info.sample_shape[2]};
  const datasets::Pipeline pipeline(any, steps);
  const Shape& shape = pipeline.output_shape();
  const float unit = info.dtype == DType::u8 ? 255.0F : 1.0F;
  const datasets::Affine& affine = pipeline.affine();
  Json mean = Json::array(), stddev = Json::array();
  for (std::size_t c = 0; c < affine.scale.size(); ++c) {  // x = pixel·scale + offset
    const float deviation = 1.0F / (affine.scale[c] * unit);
    stddev.push_back(shortest(deviation));
    mean.push_back(shortest(0.0F - affine.offset[c] * deviation));
  }
  Json input;
  if (image) {
    input = {{"layout", "NCHW"},
             {"shape", {shape[2], shape[0], shape[1]}},
             {"channels", channels_of(info, shape[2])}};
  } else {
    input = {{"layout", indices ? "indices" : "rows"},
             {"shape", std::vector<Index>(shape.begin(), shape.end())}};
  }
  input["unit"] = number(unit);
  input["steps"] = Json::array();
  for (const auto& spec : steps)
    if (datasets::transform_info(spec.name).stage == datasets::TransformStage::sample)
      input["steps"].push_back(json_of(spec));
  return {{"tandem.input", files::json_text(input)},
          {"tandem.mean", files::json_text(mean)},
          {"tandem.std", files::json_text(stddev)},
          {"tandem.class_names", files::json_text(Json(info.class_names))}};
}

void write_export(nn::Module& model, const ExportRequest& request) {
  switch (request.format) {
    case Format::safetensors:
      return runs::save_weights(model, request.path, {{"format", "pt"}});
    case Format::npz:
      return files::write_atomically(request.path, npz_of(model));
    case Format::onnx:
      return files::write_atomically(
          request.path,
          onnx_model(model, request.sample,
                     {.producer_version = version(), .metadata = request.metadata, .dtype = request.dtype}));
  }
}

}  // namespace tandem::exporting
