// Log-uniform sampling of candidate classes for the sampled softmax (Jean, Cho, Memisevic and Bengio 2015),
// as in TensorFlow's log_uniform_candidate_sampler. Classes are numbered from the most frequent down.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "core/shape.h"

namespace tandem::datasets {

// P(k) = ln((k+2)/(k+1)) / ln(classes+1), close to the distribution of words in text (Zipf).
class LogUniform {
 public:
  // Throws UserError on less than one class.
  explicit LogUniform(Index classes);

  Index classes() const { return classes_; }
  double probability(Index k) const;
  // Sum over classes below k; k in [0, classes].
  double probability_below(Index k) const;
  // ⌊(classes+1)^u⌋ - 1 for a uniform u of 53 bits: two words of the stream.
  Index draw(RandomStream& random) const;

 private:
  Index classes_;
  double log_range_;  // ln(classes+1)
};

struct CandidateOptions {
  Index classes = 0;
  Index samples = 0;   // per batch
  bool unique = true;  // repeated classes are drawn again
  std::uint64_t seed = 0;
};

struct Candidates {
  std::vector<std::int64_t> ids;  // in the order of the draw
  std::int64_t tries = 0;         // draws, including repeated classes
};

// Throws UserError on less than one sample, or more distinct ones than classes.
void check(const CandidateOptions& options);

// A pure function of the options and the key.
Candidates draw_candidates(const CandidateOptions& options, const RandomKey& key);

// ln Q(k), where Q(k) is the expected count of class k among the candidates: S·P(k) or, without repetition, 1
// - (1-P(k))^tries. 0 for negative k, which is no class.
std::vector<float> log_counts(const CandidateOptions& options, std::int64_t tries,
                              std::span<const std::int64_t> ids);

}  // namespace tandem::datasets
