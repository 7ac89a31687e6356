// Which ops may be in 16 bits without spoiling the result: a search by halves over what an oracle says of
// sets of ops (microsoft/onnxconverter-common, auto_mixed_precision.py).
//
// It is right, and finds every op that spoils, when more ops in 16 bits never lower the error. k of n ops
// that spoil take about 2k·log₂(n/k) runs; with a quarter of all or more it would be no worse to try one by
// one.
#pragma once

#include <span>
#include <vector>

namespace tandem::amp::plan {

// A step with exactly these ops in 16 bits, in the order in which search was given them, against one in f32.
class Oracle {
 public:
  virtual ~Oracle() = default;

  // Whether the error is within the limit, on the batch of the search.
  virtual bool within(std::span<const int> low) = 0;
  // The same on fresh batches.
  virtual bool verified(std::span<const int> low) = 0;
  // Each op's share of the error there, as share_of_error gives it; asked for after verified has said no.
  virtual std::vector<double> shares(std::span<const int> low) = 0;
};

// One run of the search: candidates first … first + count - 1 beside those that are good.
struct Trial {
  int first = 0, count = 0;
  bool within = false;

  bool operator==(const Trial&) const = default;
};

struct Search {
  std::vector<int> good;     // may be in 16 bits: verified, or none are left
  std::vector<int> bad;      // were found alone, beside those that were good then
  std::vector<int> dropped;  // for the sake of fresh batches, in the order in which they went
  std::vector<Trial> trials;
  int verifications = 0;
};

// The largest undecided segment is tried, the first of equals, beside what is good; one that fails is halved,
// the smaller half first. What is good is then verified; while that fails, the op with the greatest share
// goes, the first of equals. Throws InternalError when the oracle gives another number of shares than of ops.
Search search(std::span<const int> candidates, Oracle& oracle);

// Share of one op in an error E: (E² - E₋²)/E², E₋ with that op alone in f32. An error that is not finite is
// the op's when E₋ is; 0 when neither is, and when there is no error; −inf when only E₋ is not finite.
double share_of_error(double error, double without);

}  // namespace tandem::amp::plan
