#include "tasks/preprocessing.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/preparation.h"
#include "data/transforms/pipeline.h"
#include "files/json_text.h"

namespace tandem::tasks {

namespace {

using Json = nlohmann::ordered_json;

// 0.3053 instead of the equal float's 0.30529999732971191.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

Json number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

// {"op": "resize", "size": [32, 32], "filter": "bilinear", "antialias": true}: with both extents of a size,
// and all defaults.
Json json_of(const datasets::TransformSpec& spec) {
  Json step{{"op", spec.name}};
  for (const options::Key& key : datasets::transform_info(spec.name).schema.keys) {
    const auto given = spec.parameters.find(key.name);
    const std::vector<double> values =
        given == spec.parameters.end() ? datasets::numbers_of(key.default_value) : given->second;
    const auto kind = key.type.kind;
    if (kind == options::Type::Kind::integer || kind == options::Type::Kind::number) {
      if (key.name != "shorter" || values.front() > 0) step[key.name] = number(values.front());
    } else if (kind != options::Type::Kind::boolean && values.front() > 0) {
      step[key.name] = {number(values.front()), number(values.back())};
    }
  }
  if (spec.name == "resize") {
    const auto antialias = spec.parameters.find("antialias");
    step["filter"] = "bilinear";
    step["antialias"] = antialias == spec.parameters.end() || antialias->second.front() > 0;
  }
  return step;
}

// For image files; arrays are unchanged.
Json channels_of(const datasets::DatasetInfo& info, Index channels) {
  const bool files = info.dtype == DType::u8;
  if (files && channels == 3) return "RGB";
  return files && channels == 1 ? Json("grey") : Json(channels);
}

}  // namespace

std::map<std::string, std::string> preprocessing(const datasets::DatasetInfo& info, Index image_size,
                                                 const std::vector<datasets::TransformSpec>& augment) {
  const bool image = datasets::are_images(info), indices = info.dtype == DType::i64;
  const auto steps = datasets::preparation(info, image_size, augment);
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
  if (input["channels"].is_string()) input["orientation"] = info.as_stored ? "stored" : "exif";
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

}  // namespace tandem::tasks
