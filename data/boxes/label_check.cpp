#include "data/boxes/label_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/names.h"

namespace tandem::datasets {

std::string wrong_num_classes(const BoxClasses& classes, Index num_classes, const std::string& key) {
  const Index right = classes.count() + 1;
  if (num_classes == right) return {};
  const std::int64_t highest = *std::ranges::max_element(classes.ids);
  std::string why;
  if (num_classes == classes.count()) {
    why = "the background is counted, too";
  } else if (num_classes == highest + 1 || num_classes == highest) {
    why = fmt::format(
        "labels are 1 to {} without gaps, although the categories' ids go to {}; data.labels category_id "
        "uses the ids as labels",
        classes.count(), highest);
  } else if (num_classes == right + 1) {
    why = "the background is counted once";
  } else {
    why = "these are the classes of the data and the background";
  }
  return fmt::format("{} is {}, the data have {} classes: {}; set it to {}", key, num_classes,
                     classes.count(), why, right);
}

namespace {

std::vector<std::string> name_warnings(const BoxClasses& classes) {
  std::vector<std::string> warnings;
  if (classes.own_background)
    warnings.push_back(
        fmt::format("category 0, \"{}\", means the background and is no class; set model.num_classes to {}, "
                    "the classes and one background",
                    *classes.own_background, classes.count() + 1));
  std::map<std::string, std::size_t> labels;
  for (std::size_t label = 1; label < classes.names.size(); ++label) {
    const std::string& name = classes.names[label];
    if (!classes.has(label)) continue;
    if (means_background(name))
      warnings.push_back(
          fmt::format("class {} of the files is called \"{}\" and is learnt as an object; the background is "
                      "label 0 and not listed: remove the class from the files or from data.class_names, and "
                      "set model.num_classes to {}",
                      label, name, classes.count()));
    const auto [known, fresh] = labels.emplace(name, label);
    if (!fresh)
      warnings.push_back(fmt::format("classes {} and {} are both called \"{}\" (categories {} and {})",
                                     known->second, label, name, classes.ids[known->second],
                                     classes.ids[label]));
  }
  return warnings;
}

std::vector<std::string> unused_warnings(const BoxCorpus& corpus) {
  std::vector<bool> used(corpus.classes.names.size());
  for (const BoxImage& image : corpus.images)
    for (const BoxObject& object : image.objects)
      if (!object.crowd) used.at(static_cast<std::size_t>(object.label)) = true;
  std::vector<std::string> unused;
  for (std::size_t label = 1; label < used.size(); ++label)
    if (!used[label] && corpus.classes.has(label)) unused.push_back(corpus.classes.names[label]);
  if (unused.empty()) return {};
  return {fmt::format("{} of the {} classes have no training box: {}", unused.size(), corpus.classes.count(),
                      listed(unused, 8))};
}

}  // namespace

std::vector<std::string> label_warnings(const BoxCorpus& corpus) {
  std::vector<std::string> warnings = name_warnings(corpus.classes);
  for (std::string& each : unused_warnings(corpus)) warnings.push_back(std::move(each));
  double farthest = 0.0;
  Index boxes = 0, at_id_0 = 0;
  for (const BoxImage& image : corpus.images) {
    for (const BoxObject& object : image.objects) {
      ++boxes;
      farthest = std::max({farthest, object.box.x2, object.box.y2});
      at_id_0 += object.id == 0 ? 1 : 0;
    }
  }
  if (boxes > 0 && farthest <= 1.0)
    warnings.emplace_back(
        "all boxes lie within the first pixel of their images: they look normalised to [0, 1]; convert them "
        "to pixels");
  if (corpus.tallies.clipped.count * 10 > boxes && boxes > 0)
    warnings.push_back(
        fmt::format("{} of {} boxes cross the border of their image: if bbox has the corners x1, y1, x2, y2 "
                    "in the file, convert them to x, y, width, height",
                    corpus.tallies.clipped.count, boxes));
  if (at_id_0 > 0)
    warnings.emplace_back(
        "an annotation has the id 0: COCO's evaluation, and therefore Tandem's, counts its object as not "
        "found; number annotations from 1");
  return warnings;
}

}  // namespace tandem::datasets
