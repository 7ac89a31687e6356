// Error rates of sequences against their references: errors per symbol of the reference (word, phoneme or
// character error rate, by what a symbol is), and the share of sequences that are not exactly right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tandem::metrics {

// The fewest substitutions, deletions and insertions that make the hypothesis of the reference (Levenshtein);
// of equally few, those with the most substitutions.
struct Edits {
  std::int64_t substitutions = 0;
  std::int64_t deletions = 0;   // symbols of the reference that the hypothesis lacks
  std::int64_t insertions = 0;  // symbols of the hypothesis that the reference lacks
  std::int64_t reference_length = 0;

  std::int64_t errors() const { return substitutions + deletions + insertions; }
  Edits& operator+=(const Edits& other);
  friend bool operator==(const Edits&, const Edits&) = default;
};

// Symbols are numbers, or texts that are alike byte by byte. Time is the product of the lengths, memory that
// of the hypothesis. Throw UserError from 2³¹ symbols on.
Edits edits_of(std::span<const std::int32_t> reference, std::span<const std::int32_t> hypothesis);
Edits edits_of(std::span<const std::string> reference, std::span<const std::string> hypothesis);

// Of several references (pronunciations of a word) the nearest: the one with the fewest errors; of those the
// longest, which has the lowest rate; so their order does not matter. Throw UserError when there is none.
Edits nearest_edits(std::span<const std::vector<std::int32_t>> references,
                    std::span<const std::int32_t> hypothesis);
Edits nearest_edits(std::span<const std::vector<std::string>> references,
                    std::span<const std::string> hypothesis);

// The rates of a corpus, gathered sequence by sequence.
class ErrorRate {
 public:
  void add(const Edits& edits);
  void merge(const ErrorRate& other);

  // (S + D + I)/symbols of the references, both summed; above 1 where much is inserted. Errors against
  // references without symbols are infinitely many; without either, NaN.
  double rate() const;
  // The share of sequences with an error; NaN of none. Of words spelt as phonemes: the word error rate.
  double sequence_error_rate() const;

  const Edits& sum() const { return sum_; }
  std::int64_t sequences() const { return sequences_; }
  std::int64_t wrong_sequences() const { return wrong_; }

 private:
  Edits sum_;
  std::int64_t sequences_ = 0, wrong_ = 0;
};

}  // namespace tandem::metrics
