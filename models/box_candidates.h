// Candidates for non-maximum suppression: per class of an image, the anchors with sufficient scores.
#pragma once

#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::models {

struct Candidate {
  float score;
  Index anchor;
};
using Candidates = std::vector<std::vector<Candidate>>;  // by class; the background, class 0, has none

// Whether there are enough candidates to justify waking a team's threads.
bool are_many(const Candidates& candidates);

// Selects scores above `score`, and of these the `per_class` highest in order; on ties the lower anchor comes
// first.
struct CandidateOptions {
  double score;
  Index per_class;
};

// From scores [A,classes]. Throws UserError for NaN, naming anchor and class.
Candidates candidates_of(std::span<const float> scores, Index classes, const CandidateOptions& options);
// The same from logits, whose softmax are the scores. One pass over the logits dismisses most anchors as
// background.
Candidates candidates_of_logits(std::span<const float> logits, Index classes,
                                const CandidateOptions& options);

}  // namespace tandem::models
