// Search for ops that can be 16-bit without degrading the result, by bisection with an oracle on sets of ops
// (microsoft/onnxconverter-common, auto_mixed_precision.py).
//
// It finds every degrading op if more 16-bit ops never lower the error. k degrading ops of n take about
// 2k·log₂(n/k) runs; from a quarter of all on, trying ops one by one is as fast.
#pragma once

#include <span>
#include <vector>

namespace tandem::amp::plan {

// Compares a step with exactly these ops in 16 bits, in the order of the search's candidates, with an f32
// step.
class Oracle {
 public:
  virtual ~Oracle() = default;

  // Whether the error is within the limit on the batch of the search.
  virtual bool within(std::span<const int> low) = 0;
  // The same on fresh batches.
  virtual bool verified(std::span<const int> low) = 0;
  // Each op's share of that error, see share_of_error; called after verified returned false.
  virtual std::vector<double> shares(std::span<const int> low) = 0;
};

// One run of the search: candidates first … first + count - 1 and the good ones.
struct Trial {
  int first = 0, count = 0;
  bool within = false;

  bool operator==(const Trial&) const = default;
};

struct Search {
  std::vector<int> good;     // may be 16-bit: verified, or empty
  std::vector<int> bad;      // failed alone, beside the ops that were good then
  std::vector<int> dropped;  // removed because of fresh batches, in order of removal
  std::vector<Trial> trials;
  int verifications = 0;
};

// Tries the largest undecided segment (the first on ties) beside the good ones; a failing segment is halved,
// the smaller half first. Then verifies the good ones; while that fails, removes the op with the largest
// share (the first on ties). Throws InternalError when the oracle returns another number of shares than ops.
Search search(std::span<const int> candidates, Oracle& oracle);

// Share of one op in an error E: (E² - E₋²)/E², with E₋ the error with that op alone in f32. A non-finite E
// counts fully if E₋ is finite; 0 when neither is finite and when E is 0; −inf when only E₋ is non-finite.
double share_of_error(double error, double without);

}  // namespace tandem::amp::plan
