#include "models/box_suppression.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/parallel.h"
#include "core/error.h"

namespace tandem::models {

namespace {

const float kMostCode = std::log(1000.0f / 16.0f);

float within(float value) { return std::clamp(value, 0.0f, 1.0f); }

std::vector<FoundBox> boxes_of_class(Index label, const std::vector<Candidate>& candidates,
                                     std::span<const float> codes, std::span<const float> anchors,
                                     const SuppressionOptions& options) {
  const std::span<const float, 2> variances(options.variances.data(), 2);
  std::vector<UnitBox> boxes;
  boxes.reserve(candidates.size());
  for (const Candidate& one : candidates) {
    const auto at = static_cast<std::size_t>(4 * one.anchor);
    const UnitBox box = decode_box(codes.subspan(at).first<4>(), anchors.subspan(at).first<4>(), variances);
    boxes.push_back(options.clip ? UnitBox{within(box.x1), within(box.y1), within(box.x2), within(box.y2)}
                                 : box);
  }
  std::vector<FoundBox> found;
  for (const Index kept : suppress(boxes, options.overlap)) {
    const Candidate& one = candidates[static_cast<std::size_t>(kept)];
    found.push_back({boxes[static_cast<std::size_t>(kept)], label, one.score, one.anchor});
  }
  return found;
}

}  // namespace

float overlap_of(const UnitBox& a, const UnitBox& b) {
  const float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1),
              h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(w > 0.0f && h > 0.0f)) return 0.0f;
  const float shared = w * h;
  return shared / ((a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - shared);
}

UnitBox decode_box(std::span<const float, 4> code, std::span<const float, 4> anchor,
                   std::span<const float, 2> variances) {
  const float cx = code[0] * variances[0] * anchor[2] + anchor[0];
  const float cy = code[1] * variances[0] * anchor[3] + anchor[1];
  const float w = anchor[2] * std::exp(std::min(code[2] * variances[1], kMostCode));
  const float h = anchor[3] * std::exp(std::min(code[3] * variances[1], kMostCode));
  return {cx - 0.5f * w, cy - 0.5f * h, cx + 0.5f * w, cy + 0.5f * h};
}

std::vector<Index> suppress(std::span<const UnitBox> candidates, double overlap) {
  const auto most = static_cast<float>(overlap);
  std::vector<Index> kept;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool covered = std::ranges::any_of(kept, [&](Index before) {
      return overlap_of(candidates[static_cast<std::size_t>(before)], candidates[i]) > most;
    });
    if (!covered) kept.push_back(static_cast<Index>(i));
  }
  return kept;
}

std::vector<FoundBox> find_boxes(std::span<const float> scores, std::span<const float> codes,
                                 std::span<const float> anchors, const SuppressionOptions& options) {
  ensure(!anchors.empty(), "detection", "got no anchors");
  const auto classes = static_cast<Index>(scores.size() / (anchors.size() / 4));
  return find_boxes(candidates_of(scores, classes, options.candidates()), codes, anchors, options);
}

std::vector<FoundBox> find_boxes(const Candidates& by_class, std::span<const float> codes,
                                 std::span<const float> anchors, const SuppressionOptions& options) {
  ensure(codes.size() == anchors.size() && options.variances.size() == 2, "detection",
         "{} codes for {} anchors", codes.size() / 4, anchors.size() / 4);
  std::vector<std::vector<FoundBox>> of_class(by_class.size());
  cpu::parallel_for(are_many(by_class), static_cast<Index>(by_class.size()), [&](Index label) {
    const auto of = static_cast<std::size_t>(label);
    if (label > 0) of_class[of] = boxes_of_class(label, by_class[of], codes, anchors, options);
  });
  std::vector<FoundBox> found;
  for (const auto& boxes : of_class) found.insert(found.end(), boxes.begin(), boxes.end());
  // Stable: keeps the order of classes and anchors.
  std::ranges::stable_sort(found, std::greater<>(), &FoundBox::score);
  found.resize(std::min(found.size(), static_cast<std::size_t>(options.keep)));
  return found;
}

}  // namespace tandem::models
