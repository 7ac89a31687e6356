#include "data/boxes/box_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "core/names.h"

namespace tandem::datasets {

namespace {

constexpr std::size_t kListedClasses = 24;

std::string counted(Index count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : what.ends_with('x') ? "es" : "s");
}

}  // namespace

BoxSummary summary_of(const BoxCorpus& corpus) {
  BoxSummary summary;
  summary.per_class.resize(corpus.classes.names.size());
  for (const BoxImage& image : corpus.images) {
    ++summary.images;
    summary.empty_images += image.objects.empty() ? 1 : 0;
    for (const BoxObject& object : image.objects) {
      ++summary.boxes;
      summary.crowds += object.crowd ? 1 : 0;
      summary.difficult += object.difficult ? 1 : 0;
      ++summary.per_class.at(static_cast<std::size_t>(object.label));
    }
  }
  return summary;
}

std::string BoxSummary::text(const BoxClasses& classes) const {
  std::string text = counted(images, "image");
  if (empty_images > 0) text += fmt::format(", {} of them without a box", empty_images);
  text += "; " + counted(boxes, "box");
  std::vector<std::size_t> order(per_class.size() - 1);
  std::iota(order.begin(), order.end(), std::size_t{1});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t label) { return per_class[label]; });
  std::vector<std::string> each;
  for (const std::size_t label : order) {
    if (!classes.has(label)) continue;
    each.push_back(fmt::format("{} {}", classes.names[label], per_class[label]));
  }
  if (!each.empty()) text += ": " + listed(each, kListedClasses);
  if (crowds > 0) text += "; " + counted(crowds, "crowd");
  if (difficult > 0) text += fmt::format("; {} difficult", difficult);
  return text;
}

std::vector<std::string> notes_of(const BoxTallies& tallies) {
  std::vector<std::string> notes;
  const auto note = [&](const Tally& tally, std::string_view what, std::string_view became) {
    if (tally.count == 0) return;
    notes.push_back(fmt::format("{} {}; {}: {}", counted(tally.count, what), became,
                                tally.count == 1 ? "it is" : "the first", tally.first));
  };
  note(tallies.at_zero, "box",
       "with xmin or ymin 0 although VOC's pixels count from 1; if these files count from 0, set "
       "data.one_based false");
  note(tallies.clipped, "box", "across the border of the image, clipped to it");
  note(tallies.zero_area, "box", "of zero area, left out");
  note(tallies.outside, "box", "outside the image, left out");
  note(tallies.crowds, "crowd", "left out of training");
  note(tallies.difficult, "difficult object", "left out of training (data.difficult)");
  note(tallies.missing, "image", "without a file, left out with its boxes (data.missing)");
  note(tallies.unlisted, "image", "left out, marked as without the class in a list of one class");
  note(tallies.foreign, "hidden file", "among the annotations, left out");
  return notes;
}

}  // namespace tandem::datasets
