#include "tasks/sample_data.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/limits.h"
#include "data/synthetic.h"

namespace tandem::tasks {

namespace {

std::vector<Index> extents_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

class Described final : public datasets::Dataset {
 public:
  explicit Described(datasets::DatasetInfo info) { info_ = std::move(info); }
  Index size() const override { return 0; }
  datasets::Sample get(Index) const override { throw InternalError("data", "a description has no samples"); }
};

datasets::Splits without_samples(datasets::DatasetInfo info, Index image_size) {
  const auto dataset = std::make_shared<Described>(std::move(info));
  return {.train = dataset, .test = dataset, .validation = {}, .image_size = image_size};
}

}  // namespace

SampleData::SampleData(datasets::Splits splits)
    : splits_(std::move(splits)), open_(true), training_samples_(splits_.train->size()) {}

SampleData::SampleData(datasets::DatasetInfo info, Index image_size, Index training_samples)
    : splits_(without_samples(std::move(info), image_size)), training_samples_(training_samples) {}

Json SampleData::description() const {
  Json json{{"name", info().name},
            {"dtype", std::string(name_of(info().dtype))},
            {"sample_shape", extents_of(info().sample_shape)},
            {"classes", info().classes},
            {"class_names", info().class_names},
            {"mean", info().statistics.mean},
            {"stddev", info().statistics.stddev},
            {"image_size", image_size()}};
  if (info().masks) json["masks"] = true;
  if (info().boxes()) json["most_objects"] = *info().most_objects;
  return json;
}

std::shared_ptr<const SampleData> SampleData::open(const datasets::LabelledSetOptions& set,
                                                   const datasets::SampleReport& report) {
  return std::make_shared<SampleData>(datasets::open_dataset(set, report));
}

std::shared_ptr<const SampleData> SampleData::describe(const datasets::LabelledSetOptions& set) {
  if (set.set.name() != "synthetic") return open(set);
  return std::make_shared<SampleData>(set.set.as<datasets::SyntheticSetOptions>().info(), 0,
                                      set.common.train_size);
}

std::shared_ptr<const SampleData> SampleData::recall(const Json& json) {
  datasets::DatasetInfo info;
  Index image_size = 0;
  try {
    info.name = json.at("name");
    info.dtype = dtype_from_name(json.at("dtype").get<std::string>()).value_or(DType::u8);
    info.sample_shape = Shape(std::span<const Index>(json.at("sample_shape").get<std::vector<Index>>()));
    info.classes = json.at("classes");
    info.class_names = json.at("class_names").get<std::vector<std::string>>();
    info.statistics = {json.at("mean").get<std::vector<float>>(),
                       json.at("stddev").get<std::vector<float>>()};
    image_size = json.at("image_size");
    info.masks = json.value("masks", false);
    if (json.contains("most_objects")) info.most_objects = json.at("most_objects").get<Index>();
    require(info.classes >= 0 && info.classes <= datasets::kMaxClasses, "",
            "the description of the data saved with the weights is damaged: {} classes, there are at most {}",
            info.classes, datasets::kMaxClasses);
  } catch (const nlohmann::json::exception& error) {
    throw UserError(
        "", fmt::format("the description of the data saved with the weights is damaged: {}", error.what()));
  }
  return std::make_shared<SampleData>(std::move(info), image_size);
}

void SampleData::require_like(const Json& saved, const std::string& weights) const {
  const auto then = recall(saved);
  require(then->info().classes == info().classes, "", "{}: were trained on data of {} classes, {} has {}",
          weights, then->info().classes, info().name, info().classes);
}

}  // namespace tandem::tasks
