#include "data/preparation.h"

#include <algorithm>

namespace tandem::datasets {

namespace {

bool varies_in_size(const DatasetInfo& info) { return are_images(info) && info.sample_shape.numel() == 0; }

bool resizes(const TransformSpec& spec) {
  return spec.name == "resize" || spec.name == "random_resized_crop";
}

bool crops_to_size(const TransformSpec& spec) {
  const auto size = spec.parameters.find("size");
  return (spec.name == "random_crop" || spec.name == "center_crop") && size != spec.parameters.end() &&
         !size->second.empty() && size->second.front() > 0;
}

}  // namespace

bool set_size(std::span<const TransformSpec> specs) {
  return std::ranges::any_of(specs, [](const auto& spec) { return resizes(spec) || crops_to_size(spec); });
}

std::vector<TransformSpec> with_sizes(const DatasetInfo& info, Index image_size,
                                      std::span<const TransformSpec> specs, bool evaluation) {
  std::vector<TransformSpec> list(specs.begin(), specs.end());
  const auto side = static_cast<double>(image_size);
  for (TransformSpec& spec : list) {
    if (image_size > 0 && spec.name == "random_resized_crop") spec.parameters.try_emplace("size", 1, side);
  }
  if (evaluation) list = evaluation_transforms(list);
  if (!varies_in_size(info) || std::ranges::any_of(list, resizes)) return list;
  if (info.boxes()) {  // crops are chosen among the image's own pixels
    if (image_size > 0 && !set_size(list)) list.push_back({"resize", {{"size", {side}}}});
    return list;
  }
  if (info.masks) {  // keeps all pixels
    if (image_size > 0 && !set_size(list)) list.insert(list.begin(), {"resize", {{"size", {side}}}});
    return list;
  }
  std::vector<TransformSpec> all = {{"resize", {{"shorter", {side}}}}, {"center_crop", {{"size", {side}}}}};
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<TransformSpec> preparation(const DatasetInfo& info, Index image_size,
                                       std::span<const TransformSpec> augment) {
  const Shape& sample = info.sample_shape;
  std::vector<TransformSpec> list = with_sizes(info, image_size, augment, true);
  if (!are_images(info) || varies_in_size(info)) return list;
  list.insert(list.begin(),
              {"resize", {{"size", {static_cast<double>(sample[0]), static_cast<double>(sample[1])}}}});
  return list;
}

}  // namespace tandem::datasets
