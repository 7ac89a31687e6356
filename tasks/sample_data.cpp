#include "tasks/sample_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/cpu/cpu_features.h"
#include "core/error.h"
#include "data/class_order.h"
#include "data/limits.h"
#include "data/relabelled.h"
#include "data/synthetic.h"
#include "files/json_text.h"
#include "tasks/class_lists.h"

namespace tandem::tasks {

namespace {

constexpr Index kLargestSide = 65536;  // maximum of data.image_size

std::vector<Index> extents_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

class Described final : public datasets::Dataset {
 public:
  explicit Described(datasets::DatasetInfo info) { info_ = std::move(info); }
  Index size() const override { return 0; }
  datasets::Sample get(Index) const override { throw InternalError("data", "a description has no samples"); }
};

datasets::Splits without_samples(datasets::DatasetInfo info, Index image_size,
                                 std::vector<std::string> notes) {
  const auto dataset = std::make_shared<Described>(std::move(info));
  return {.train = dataset,
          .test = dataset,
          .validation = {},
          .image_size = image_size,
          .notes = std::move(notes)};
}

std::vector<std::string> values_as_text(const std::vector<Index>& values) {
  std::vector<std::string> texts;
  for (const Index value : values) texts.push_back(std::to_string(value));
  return texts;
}

// Returns empty lists if nothing identifies classes: names on only one side may belong to other values on the
// other side.
ClassLists class_lists(const datasets::DatasetInfo& theirs, const datasets::DatasetInfo& ours) {
  const bool named = !theirs.class_names.empty(), named_here = !ours.class_names.empty();
  if (named && named_here) return {theirs.class_names, ours.class_names};
  if (theirs.class_values.empty() || ours.class_values.empty()) return {};
  if ((named || named_here) && !std::ranges::is_permutation(theirs.class_values, ours.class_values))
    return {};
  return {values_as_text(theirs.class_values), values_as_text(ours.class_values), true};
}

// The reasons, in the order of the samples.
std::vector<std::string> unreadable(const datasets::Dataset& set) {
  std::map<Index, std::string> reasons;
  std::mutex mutex;
  std::atomic<Index> next = 0;
  const auto read = [&] {
    for (Index at = next++; at < set.size(); at = next++) {
      try {
        set.get(at);
      } catch (const UserError& error) {
        const std::lock_guard lock(mutex);
        reasons.emplace(at, error.what());
      }
    }
  };
  std::vector<std::future<void>> readers;
  for (int thread = 1; thread < cpu::threads(); ++thread)
    readers.push_back(std::async(std::launch::async, read));
  read();
  for (std::future<void>& reader : readers) reader.get();
  std::vector<std::string> in_order;
  for (auto& [at, reason] : reasons) in_order.push_back(std::move(reason));
  return in_order;
}

}  // namespace

SampleData::SampleData(datasets::Splits splits)
    : splits_(std::move(splits)), open_(true), training_samples_(splits_.train->size()) {}

SampleData::SampleData(datasets::DatasetInfo info, Index image_size, Index training_samples,
                       std::vector<std::string> notes)
    : splits_(without_samples(std::move(info), image_size, std::move(notes))),
      training_samples_(training_samples) {}

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
  if (!info().class_values.empty()) json["class_values"] = info().class_values;
  if (info().as_stored) json["as_stored"] = true;
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
    const auto extents = json.at("sample_shape").get<std::vector<Index>>();
    datasets::checked_bytes(extents, 1, "the description of the data saved with the weights");
    info.sample_shape = Shape(std::span(extents));
    info.classes = json.at("classes");
    info.class_names = json.at("class_names").get<std::vector<std::string>>();
    info.statistics = {json.at("mean").get<std::vector<float>>(),
                       json.at("stddev").get<std::vector<float>>()};
    image_size = json.at("image_size");
    info.masks = json.value("masks", false);
    info.class_values = json.value("class_values", std::vector<Index>());
    info.as_stored = json.value("as_stored", false);
    if (json.contains("most_objects")) info.most_objects = json.at("most_objects").get<Index>();
    require(info.classes >= 0 && info.classes <= datasets::kMaxClasses, "",
            "the description of the data saved with the weights is damaged: {} classes, there are at most {}",
            info.classes, datasets::kMaxClasses);
    require(image_size >= 0 && image_size <= kLargestSide && info.most_objects.value_or(0) >= 0 &&
                info.most_objects.value_or(0) <= datasets::kMaxPieces,
            "",
            "the description of the data saved with the weights is damaged: images of side {}, at most {}, "
            "with up to {} objects",
            image_size, kLargestSide, info.most_objects.value_or(0));
  } catch (const nlohmann::json::exception& error) {
    throw UserError("", fmt::format("the description of the data saved with the weights is damaged: {}",
                                    files::json_reason(error)));
  }
  return std::make_shared<SampleData>(std::move(info), image_size);
}

void SampleData::require_like(const Json& saved, const std::string& weights) const {
  const auto then = recall(saved);
  require(then->info().classes == info().classes, "", "{}: were trained on data of {} classes, {} has {}",
          weights, then->info().classes, info().name, info().classes);
  require_same(class_lists(then->info(), info()), weights, info().name);
}

std::optional<ReorderedData> SampleData::in_order_of(const Json& saved) const {
  const auto then = recall(saved);
  const ClassLists classes = class_lists(then->info(), info());
  const auto order = datasets::class_order(classes.theirs, classes.ours);
  const bool whole = order && static_cast<Index>(order->size()) == info().classes;
  if (!whole || (info().boxes() && order->front() != 0)) return std::nullopt;  // the background stays first
  const auto data = std::make_shared<SampleData>(*this);
  datasets::Splits& splits = data->splits_;
  for (datasets::DatasetPtr* split : {&splits.train, &splits.validation, &splits.test})
    if (*split) *split = std::make_shared<datasets::Relabelled>(*split, *order);
  return ReorderedData{data, note_of_order(classes)};
}

void SampleData::read_all(const std::function<void(const std::string&)>& bad) const {
  for (const datasets::DatasetPtr& split : {splits_.train, splits_.validation, splits_.test})
    if (split && split->decodes())
      for (const std::string& reason : unreadable(*split)) bad(reason);
}

}  // namespace tandem::tasks
