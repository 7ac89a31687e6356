#include "data/transforms/transform.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/suggest.h"
#include "data/transforms/mix.h"
#include "data/transforms/parameters.h"

namespace tandem::datasets {

namespace {

using options::Describe;

const options::Rule kShare{.min = 1e-3, .max = 100}, kMixProbability{.min = 0, .max = 1};

struct MixupOptions : MixOptions::Method {
  MixupOptions() : Method{.alpha = 0.2} {}
};

template <class Options>
TransformInfo mixing(std::string name, std::string help) {
  double MixOptions::Method::*const alpha = &MixOptions::Method::alpha;
  double MixOptions::Method::*const probability = &MixOptions::Method::probability;
  return {{std::move(name), std::move(help),
           Describe<Options>()
               .key("alpha", static_cast<double Options::*>(alpha),
                    "the share is drawn from Beta(alpha, alpha)", kShare)
               .key("probability", static_cast<double Options::*>(probability),
                    "probability of mixing a sample", kMixProbability)},
          TransformStage::batch};
}

TransformInfo normalise() {
  return {{"normalise",
           "subtract the mean and divide by the standard deviation, per channel; always the last step; "
           "default: the data set's statistics",
           Describe<NormaliseOptions>()
               .key("mean", &NormaliseOptions::mean, "mean per channel or one for all, of pixels in 0 to 1")
               .key("std", &NormaliseOptions::stddev, "standard deviation per channel or one for all",
                    {.min = 1e-12})},
          TransformStage::final,
          false};
}

std::vector<TransformInfo> batch_transforms() {
  return {mixing<MixupOptions>("mixup", "blend images and labels of a batch in pairs (Zhang et al. 2018)"),
          mixing<MixOptions::Method>(
              "cutmix", "paste a rectangle of the pair's other image, labels by area (Yun et al. 2019)"),
          normalise()};
}

}  // namespace

options::Entries<TransformInfo>& transforms() {
  static options::Entries<TransformInfo> transforms(
      "transform", {geometric_transforms, colour_transforms, detection_transforms, batch_transforms});
  return transforms;
}

std::vector<double> numbers_of(const options::Value& value) {
  using Kind = options::Value::Kind;
  std::vector<double> numbers;
  if (!value.is(Kind::list)) numbers.push_back(value.is(Kind::boolean) && value.boolean ? 1.0 : value.number);
  for (const options::Value& item : value.items) numbers.push_back(item.number);
  return numbers;
}

options::Value value_of(const std::vector<double>& numbers, options::Type::Kind kind) {
  using Kind = options::Type::Kind;
  if (numbers.size() != 1 || kind == Kind::list) return numbers;
  if (kind == Kind::boolean && (numbers[0] == 0.0 || numbers[0] == 1.0)) return numbers[0] == 1.0;
  return numbers[0];
}

options::Record parameters_of(const TransformInfo& transform, const TransformSpec& spec) {
  options::Given given;
  for (const auto& [name, values] : spec.parameters) {
    require(!values.empty(), transform.name, "{} has no value", name);
    const options::Key* const key = transform.schema.find(name);
    given.push_back({name, key ? value_of(values, key->type.kind) : options::Value(values)});
  }
  try {
    return options::bound(transform.name, transform.schema, given);
  } catch (const options::OptionError& error) {  // the path is none of a configuration
    throw UserError("", error.what());
  }
}

const TransformInfo& transform_info(const std::string& name) {
  const TransformInfo* const found = transforms().find(name == "normalize" ? "normalise" : name);
  if (!found)
    throw UserError("augment", fmt::format("there is no transform \"{}\"{}", name,
                                           did_you_mean(name, transforms().names())));
  return *found;
}

std::vector<TransformSpec> evaluation_transforms(std::span<const TransformSpec> training) {
  std::vector<TransformSpec> result;
  for (const TransformSpec& spec : training) {
    const auto size = spec.parameters.find("size");
    const bool sized = size != spec.parameters.end() && !size->second.empty() && size->second.front() > 0;
    if (spec.name == "random_crop" && sized) {
      result.push_back({"center_crop", {{"size", size->second}}});
    } else if (spec.name == "random_resized_crop" && sized) {
      const double shorter = std::round(std::ranges::min(size->second) / 0.875);
      result.push_back({"resize", {{"shorter", {shorter}}}});
      result.push_back({"center_crop", {{"size", size->second}}});
    } else if (!transform_info(spec.name).random) {
      result.push_back(spec);
    }
  }
  return result;
}

}  // namespace tandem::datasets
