// The few boxes of a detector for an image: decoding, thresholds, non-maximum suppression. Host
// values in FP32, in one total order: scores descending, then classes, then anchors ascending.
#pragma once

#include <span>
#include <vector>

#include "core/shape.h"
#include "models/box_candidates.h"

namespace tandem::models {

// Corners in shares of the image's sides.
struct UnitBox {
  float x1 = 0.0f, y1 = 0.0f, x2 = 0.0f, y2 = 0.0f;
};

// Intersection over union; 0 unless they share an area.
float overlap_of(const UnitBox& a, const UnitBox& b);

// Offsets and logarithms as match_boxes codes them, back to a box: anchor (cx, cy, w, h), variances as there.
// What extents are multiplied by is at most 1000/16, so that no code gives an infinite box (torchvision).
UnitBox decode_box(std::span<const float, 4> code, std::span<const float, 4> anchor,
                   std::span<const float, 2> variances);

struct SuppressionOptions {
  double score = 0.01;    // a class's score must be above it
  Index per_class = 400;  // candidates of a class, the surest ones
  double overlap = 0.45;  // of two boxes of a class that overlap by more the less sure one goes
  Index keep = 200;       // detections of an image
  bool clip = true;       // boxes to the image, before anything is compared
  std::vector<float> variances{0.1f, 0.2f};

  CandidateOptions candidates() const { return {.score = score, .per_class = per_class}; }
};

struct FoundBox {
  UnitBox box;
  Index label = 0;  // from 1 on
  float score = 0.0f;
  Index anchor = 0;
};

// The boxes of `candidates` that stay, by their places in it: from the first on each that overlaps none of
// those before it that stay by more than `overlap`.
std::vector<Index> suppress(std::span<const UnitBox> candidates, double overlap);

// Of one image: scores [A,K] of which class 0 is the background, codes [A,4], anchors [A,4]. Throws UserError
// for a score that is no number, naming anchor and class.
std::vector<FoundBox> find_boxes(std::span<const float> scores, std::span<const float> codes,
                                 std::span<const float> anchors, const SuppressionOptions& options);
std::vector<FoundBox> find_boxes(const Candidates& candidates, std::span<const float> codes,
                                 std::span<const float> anchors, const SuppressionOptions& options);

}  // namespace tandem::models
