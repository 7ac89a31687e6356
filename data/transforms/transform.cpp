#include "data/transforms/transform.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/error.h"
#include "core/suggest.h"

namespace tandem::datasets {

Parameters::Parameters(const TransformSpec& spec, std::span<const ParameterInfo> known)
    : transform_(spec.name) {
  std::vector<std::string> names;
  for (const ParameterInfo& info : known) {
    names.push_back(info.name);
    values_[info.name] = info.defaults;
  }
  for (const auto& [name, values] : spec.parameters) {
    const auto info = std::ranges::find(known, name, &ParameterInfo::name);
    require(info != known.end(), transform_, "has no parameter \"{}\"{}", name, did_you_mean(name, names));
    require(!values.empty() && values.size() <= info->max_count, transform_, "{} has {} values, expected {}",
            name, values.size(), info->max_count == 1 ? "one" : "1 to " + std::to_string(info->max_count));
    for (const double value : values) {
      require(value >= info->min && value <= info->max, transform_, "{} is {}, expected {} to {} ({})", name,
              value, info->min, info->max, info->help);
    }
    values_[name] = values;
  }
}

Index Parameters::integer(const std::string& name) const {
  const double value = number(name);
  require(value == std::floor(value) && std::abs(value) < 1e9, transform_,
          "{} is {}, expected a whole number", name, value);
  return static_cast<Index>(value);
}

const std::vector<TransformInfo>& all_transforms() {
  static const std::vector<TransformInfo> table = [] {
    std::vector<TransformInfo> all = geometric_transforms();
    std::ranges::move(colour_transforms(), std::back_inserter(all));
    all.push_back({"mixup",
                   "blend images and labels of a batch in pairs (Zhang et al. 2018)",
                   {{"alpha", {0.2}, 1e-3, 100, 1, "the share is drawn from Beta(alpha, alpha)"},
                    {"probability", {1}, 0, 1, 1, "of mixing a sample"}},
                   TransformStage::batch});
    all.push_back({"cutmix",
                   "paste a rectangle of the pair's other image, labels by area (Yun et al. 2019)",
                   {{"alpha", {1}, 1e-3, 100, 1, "the share is drawn from Beta(alpha, alpha)"},
                    {"probability", {1}, 0, 1, 1, "of mixing a sample"}},
                   TransformStage::batch});
    const double inf = std::numeric_limits<double>::infinity();
    all.push_back(
        {"normalise",
         "subtract the mean and divide by the standard deviation, per channel; always the last step, with "
         "the data set's statistics unless given",
         {{"mean", {}, -inf, inf, 4096, "per channel or one for all; of pixels in 0 to 1"},
          {"std", {}, 1e-12, inf, 4096, "per channel or one for all"}},
         TransformStage::final,
         false});
    return all;
  }();
  return table;
}

const TransformInfo& transform_info(const std::string& name) {
  const std::string asked = name == "normalize" ? "normalise" : name;
  const auto& table = all_transforms();
  const auto found = std::ranges::find(table, asked, &TransformInfo::name);
  if (found == table.end()) {
    std::vector<std::string> names;
    for (const TransformInfo& info : table) names.push_back(info.name);
    throw UserError("augment",
                    fmt::format("there is no transform \"{}\"{}", name, did_you_mean(name, names)));
  }
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
