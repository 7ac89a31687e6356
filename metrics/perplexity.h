// Perplexity and bits per character, from negative log-likelihoods that are gathered over batches.
#pragma once

#include <cstdint>

namespace tandem::metrics {

// Sums, not means: a corpus has one perplexity, whatever its batches, and the mean of those of batches is
// another figure. Every target counts once, end marks and unknown words included. All arithmetic is in
// double.
class Perplexity {
 public:
  // `nll`: Σ -ln p over `targets` targets of a batch, in nats. Throws UserError for a negative number of
  // targets, or for a sum that is not 0 over none. What is not finite stays: NaN in any batch makes all
  // figures NaN.
  void add(double nll, std::int64_t targets);
  void merge(const Perplexity& other);

  double nll() const { return nll_; }
  std::int64_t targets() const { return targets_; }

  // Σ nll/Σ targets, in nats; NaN of no targets.
  double mean() const { return nll_ / static_cast<double>(targets_); }
  // exp(Σ nll/Σ targets); infinite above the range of double, NaN of no targets.
  double value() const { return value_per(targets_); }
  // exp(Σ nll/units): of a model of parts of words, with the number of words, a perplexity that can be
  // compared with that of a model of words. NaN of 0 units. Throws UserError for less.
  double value_per(std::int64_t units) const;
  // Σ nll/(ln 2 · characters); NaN of 0 characters. Throws UserError for less.
  double bits_per_character(std::int64_t characters) const;

 private:
  double nll_ = 0.0;
  std::int64_t targets_ = 0;
};

}  // namespace tandem::metrics
