// Error rates of sequences: errors per symbol of the reference (word, phoneme or character error rate,
// depending on the symbols), and the share of sequences with any error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::metrics {

// The minimum number of substitutions, deletions and insertions from reference to hypothesis (Levenshtein);
// on ties with the most substitutions.
struct Edits {
  std::int64_t substitutions = 0;
  std::int64_t deletions = 0;   // reference symbols missing in the hypothesis
  std::int64_t insertions = 0;  // hypothesis symbols missing in the reference
  std::int64_t reference_length = 0;

  std::int64_t errors() const { return substitutions + deletions + insertions; }
  Edits& operator+=(const Edits& other);
  friend bool operator==(const Edits&, const Edits&) = default;
};

// Symbols are numbers, or texts compared byte by byte. Time is proportional to the product of the lengths,
// memory to the hypothesis. Throws UserError from 2³¹ symbols on.
Edits edits_of(std::span<const std::int32_t> reference, std::span<const std::int32_t> hypothesis);
Edits edits_of(std::span<const std::string> reference, std::span<const std::string> hypothesis);

// The nearest of several references (pronunciations of a word): the one with the fewest errors, on ties the
// longest, which has the lowest rate; independent of their order. Throws UserError without a reference.
Edits nearest_edits(std::span<const std::vector<std::int32_t>> references,
                    std::span<const std::int32_t> hypothesis);
Edits nearest_edits(std::span<const std::vector<std::string>> references,
                    std::span<const std::string> hypothesis);

// Error rates of a corpus, accumulated over sequences.
class ErrorRate {
 public:
  void add(const Edits& edits);
  void merge(const ErrorRate& other);

  // (S + D + I)/symbols of the references, both summed; above 1 with many insertions. Infinite for errors
  // with empty references, NaN without both.
  double rate() const;
  // The share of sequences with an error; NaN without sequences. The word error rate for words as phonemes.
  double sequence_error_rate() const;

  const Edits& sum() const { return sum_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t wrong_sequences() const { return wrong_; }

 private:
  Edits sum_;
  std::int64_t sequences_ = 0, wrong_ = 0;
};

}  // namespace tandem::metrics
