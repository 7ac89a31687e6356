// Classes drawn in place of all others, for the sampled softmax (Jean, Cho, Memisevic and Bengio 2015), as
// TensorFlow's log_uniform_candidate_sampler draws them: by their number, which counts from the most frequent
// class down.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "core/shape.h"

namespace tandem::datasets {

// P(k) = ln((k+2)/(k+1)) / ln(classes+1), about what the words of a text follow (Zipf).
class LogUniform {
 public:
  // Throws UserError on less than one class.
  explicit LogUniform(Index classes);

  Index classes() const { return classes_; }
  double probability(Index k) const;
  // Of all classes below k; k in [0, classes].
  double probability_below(Index k) const;
  // ⌊(classes+1)^u⌋ - 1 for a uniform u of 53 bits: two words of the stream.
  Index draw(RandomStream& random) const;

 private:
  Index classes_;
  double log_range_;  // ln(classes+1)
};

struct CandidateOptions {
  Index classes = 0;
  Index samples = 0;   // drawn for a batch
  bool unique = true;  // a class that was drawn before is drawn again
  std::uint64_t seed = 0;
};

struct Candidates {
  std::vector<std::int64_t> ids;  // in the order of the draw
  std::int64_t tries = 0;         // draws, with those of classes that were there before
};

// Throws UserError on less than one sample, or more different ones than there are classes.
void check(const CandidateOptions& options);

// A pure function of the options and the key.
Candidates draw_candidates(const CandidateOptions& options, const RandomKey& key);

// ln Q(k), how often class k is expected among the candidates: S·P(k), or where none is there twice
// 1 - (1-P(k))^tries, for the tries that it took. 0 for k below 0, which stands for no class.
std::vector<float> log_counts(const CandidateOptions& options, std::int64_t tries,
                              std::span<const std::int64_t> ids);

}  // namespace tandem::datasets
