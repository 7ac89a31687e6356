// Perplexity and bits per character, from accumulated negative log-likelihoods.
#pragma once

#include <cstdint>

namespace tandem::metrics {

// Inputs are sums, not means: the perplexity of a corpus does not depend on its batches, unlike a mean of
// batch perplexities. Every target counts once, including end marks and unknown words. All arithmetic is in
// double.
class Perplexity {
 public:
  // `nll`: Σ -ln p over `targets` targets of a batch, in nats. Throws UserError for a negative number of
  // targets, or a non-zero sum over none. Non-finite values propagate: NaN in any batch makes all results
  // NaN.
  void add(double nll, std::int64_t targets);
  void merge(const Perplexity& other);

  double nll() const { return nll_; }
  std::int64_t targets() const { return targets_; }

  // Σ nll/Σ targets, in nats; NaN without targets.
  double mean() const { return nll_ / static_cast<double>(targets_); }
  // exp(Σ nll/Σ targets); infinite above the range of double, NaN without targets.
  double value() const { return value_per(targets_); }
  // exp(Σ nll/units). With the number of words as units, a subword model is comparable with a word model. NaN
  // for 0 units. Throws UserError for a negative number.
  double value_per(std::int64_t units) const;
  // Σ nll/(ln 2 · characters); NaN for 0 characters. Throws UserError for a negative number.
  double bits_per_character(std::int64_t characters) const;

 private:
  double nll_ = 0.0;
  std::int64_t targets_ = 0;
};

}  // namespace tandem::metrics
