// Distribution of a tensor for TensorBoard.
#pragma once

#include <span>
#include <vector>

namespace tandem::tensorboard {

// Histogram of finite values; others are left out. counts[i] values lie in [limits[i - 1], limits[i]).
struct Histogram {
  double min = 0.0, max = 0.0, sum = 0.0, sum_squares = 0.0;
  double count = 0.0;
  std::vector<double> limits, counts;
};

// Histogram of the values times `factor`, with four buckets per octave over the twelve octaves below the
// greatest magnitude; smaller values share the bucket around zero. Makes one pass over the values for the
// range, one for the buckets.
Histogram histogram_of(std::span<const float> values, double factor = 1.0);

}  // namespace tandem::tensorboard
