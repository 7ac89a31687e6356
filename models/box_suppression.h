// Postprocessing of detections of an image: decoding, thresholds, non-maximum suppression. Host values in
// FP32, in one total order: scores descending, then classes, then anchors ascending.
#pragma once

#include <span>
#include <vector>

#include "core/shape.h"
#include "models/box_candidates.h"

namespace tandem::models {

// Corners relative to the image's sides.
struct UnitBox {
  float x1 = 0.0f, y1 = 0.0f, x2 = 0.0f, y2 = 0.0f;
};

// Intersection over union; 0 unless they share an area.
float overlap_of(const UnitBox& a, const UnitBox& b);

// Inverse of the coding of match_boxes: offsets and logarithms to a box, for an anchor (cx, cy, w, h) and the
// same variances. The factor on extents is at most 1000/16, so that no code gives an infinite box
// (torchvision).
UnitBox decode_box(std::span<const float, 4> code, std::span<const float, 4> anchor,
                   std::span<const float, 2> variances);

struct SuppressionOptions {
  double score = 0.01;    // lower bound on a class's score, exclusive
  Index per_class = 400;  // highest-scoring candidates of a class
  double overlap = 0.45;  // NMS IoU threshold
  Index keep = 200;       // detections of an image
  bool clip = true;       // clip boxes to the image first
  std::vector<float> variances{0.1f, 0.2f};

  CandidateOptions candidates() const { return {.score = score, .per_class = per_class}; }
};

struct FoundBox {
  UnitBox box;
  Index label = 0;  // from 1 on
  float score = 0.0f;
  Index anchor = 0;
};

// Greedy NMS: indices of the candidates to keep, in order; each overlaps no earlier kept one by more than
// `overlap`.
std::vector<Index> suppress(std::span<const UnitBox> candidates, double overlap);

// Detections of one image: scores [A,K] with class 0 as background, codes [A,4], anchors [A,4]. Throws
// UserError for a NaN score, naming anchor and class.
std::vector<FoundBox> find_boxes(std::span<const float> scores, std::span<const float> codes,
                                 std::span<const float> anchors, const SuppressionOptions& options);
std::vector<FoundBox> find_boxes(const Candidates& candidates, std::span<const float> codes,
                                 std::span<const float> anchors, const SuppressionOptions& options);

}  // namespace tandem::models
