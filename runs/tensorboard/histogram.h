// A tensor's distribution, as TensorBoard shows it.
#pragma once

#include <span>
#include <vector>

namespace tandem::tensorboard {

// Of finite values; the rest is left out. counts[i] values lie in [limits[i - 1], limits[i]).
struct Histogram {
  double min = 0.0, max = 0.0, sum = 0.0, sum_squares = 0.0;
  double count = 0.0;
  std::vector<double> limits, counts;
};

// Of the values times `factor`, in four buckets an octave over the twelve octaves below the greatest
// magnitude; what is smaller shares the bucket around zero. One pass over the values for the range, one for
// the buckets.
Histogram histogram_of(std::span<const float> values, double factor = 1.0);

}  // namespace tandem::tensorboard
