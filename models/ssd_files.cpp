// Names and layouts of detector weights in other programs' files.
#include <charconv>

#include "core/error.h"
#include "models/ssd.h"

namespace tandem::models {

namespace {

// Rows of output channels: value k of anchor a is channel k·A+a in the file and a·K+k here (A anchors per
// cell, K values each).
std::vector<Index> rows_by_anchor(Index channels, Index anchors) {
  std::vector<Index> rows;
  const Index numbers = channels / anchors;
  for (Index anchor = 0; anchor < anchors; ++anchor)
    for (Index number = 0; number < numbers; ++number) rows.push_back(number * anchors + anchor);
  return rows;
}

// Maps "conf.3.weight" to head.…module_list.3.weight, with its rows.
std::optional<ForeignTensor> nvidia_head(const safetensors::Entry& entry, const AnchorGrid& grid) {
  const bool classes = entry.name.starts_with("conf."), boxes = entry.name.starts_with("loc.");
  if ((!classes && !boxes) || entry.extents.empty()) return std::nullopt;
  const std::string rest = entry.name.substr(entry.name.find('.') + 1);
  std::size_t level = 0;
  if (std::from_chars(rest.data(), rest.data() + rest.size(), level).ec != std::errc{} ||
      level >= grid.levels.size())
    return std::nullopt;
  const Index anchors = grid.levels[level].per_cell(), channels = static_cast<Index>(entry.extents[0]);
  const char* const head = classes ? "head.classification_head" : "head.regression_head";
  ForeignTensor here{fmt::format("{}.module_list.{}", head, rest)};
  if (channels % anchors == 0) here.rows = rows_by_anchor(channels, anchors);  // else the shape is wrong
  return here;
}

ForeignNames nvidia_names(const AnchorGrid& grid) {
  const ForeignNames body =
      under({{"feature_extractor.feature_extractor.0.", "backbone.feature_extractor.conv1."},
             {"feature_extractor.feature_extractor.1.", "backbone.feature_extractor.bn1."},
             {"feature_extractor.feature_extractor.4.", "backbone.feature_extractor.layer1."},
             {"feature_extractor.feature_extractor.5.", "backbone.feature_extractor.layer2."},
             {"feature_extractor.feature_extractor.6.", "backbone.feature_extractor.layer3."},
             {"additional_blocks.", "backbone.additional_blocks."}});
  return [body, grid](const safetensors::Entry& entry) {
    std::optional<ForeignTensor> head = nvidia_head(entry, grid);
    return head ? head : body(entry);
  };
}

}  // namespace

ForeignNames Ssd::foreign_names(const safetensors::File& file) const {
  if (file.find("loc.0.weight") && file.find("conf.0.weight")) return nvidia_names(options_.anchors);
  const ForeignNames below = body_->classifier_names(file);
  if (!below) return {};
  return [below](const safetensors::Entry& entry) {
    std::optional<ForeignTensor> here = below(entry);
    if (here) here->name.insert(0, "backbone.");
    return here;
  };
}

}  // namespace tandem::models
