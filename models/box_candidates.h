// Candidates for non-maximum suppression: for each class of an image the anchors that are sure enough of it.
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

// Of all classes: whether there are so many that waking a team's threads is worth it.
bool are_many(const Candidates& candidates);

// Which they are: those of a score above `score`, and of these the `per_class` surest, in order; of equal
// ones the lower anchor comes first.
struct CandidateOptions {
  double score;
  Index per_class;
};

// Of scores [A,classes]. Throws UserError for one that is no number, naming anchor and class.
Candidates candidates_of(std::span<const float> scores, Index classes, const CandidateOptions& options);
// The same of the logits that scores are the softmax of. Most anchors are so sure of the background that it
// takes one pass over their logits to see that.
Candidates candidates_of_logits(std::span<const float> logits, Index classes,
                                const CandidateOptions& options);

}  // namespace tandem::models
