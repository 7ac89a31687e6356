#include "tasks/data_description.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/limits.h"

namespace tandem::tasks {

using Json = nlohmann::ordered_json;

namespace {

std::vector<Index> extents_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

Json to_json(const DataDescription& description) {
  const auto& info = description.info;
  return {{"name", info.name},
          {"dtype", std::string(name_of(info.dtype))},
          {"sample_shape", extents_of(info.sample_shape)},
          {"classes", info.classes},
          {"class_names", info.class_names},
          {"mean", info.statistics.mean},
          {"stddev", info.statistics.stddev},
          {"image_size", description.image_size}};
}

DataDescription data_description(const Json& json) {
  DataDescription description;
  auto& info = description.info;
  try {
    info.name = json.at("name");
    info.dtype = dtype_from_name(json.at("dtype").get<std::string>()).value_or(DType::u8);
    info.sample_shape = Shape(std::span<const Index>(json.at("sample_shape").get<std::vector<Index>>()));
    info.classes = json.at("classes");
    info.class_names = json.at("class_names").get<std::vector<std::string>>();
    info.statistics = {json.at("mean").get<std::vector<float>>(),
                       json.at("stddev").get<std::vector<float>>()};
    description.image_size = json.at("image_size");
    require(info.classes >= 0 && info.classes <= datasets::kMaxClasses, "",
            "the description of the data saved with the weights is damaged: {} classes, there are at most {}",
            info.classes, datasets::kMaxClasses);
  } catch (const nlohmann::json::exception& error) {
    throw UserError(
        "", fmt::format("the description of the data saved with the weights is damaged: {}", error.what()));
  }
  return description;
}

}  // namespace tandem::tasks
