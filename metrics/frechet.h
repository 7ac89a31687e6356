// The Fréchet distance between two sets of features, each taken for a normal distribution (Dowson and Landau
// 1982; Heusel et al. 2017 apply it to Inception's features and call it FID). Everything is FP64.
#pragma once

#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::metrics {

// Mean and covariance of rows that come in portions.
class FeatureMoments {
 public:
  // `rows` [N,features], row by row. Throws UserError unless every portion has the features of the first.
  void add(std::span<const float> rows, Index features);

  Index count() const { return count_; }
  Index features() const { return features_; }
  std::vector<double> mean() const;        // [F]
  std::vector<double> covariance() const;  // [F,F], of the sample: divided by count - 1, at least 1

 private:
  Index count_ = 0, features_ = 0;
  // Of what rows exceed `origin_` by: their sum, and that of their outer products, of which the lower
  // triangle counts. An origin amidst the rows keeps the covariance from being a small difference of large
  // numbers.
  std::vector<double> origin_, sum_, products_;
};

// |μ₁-μ₂|² + tr(Σ₁ + Σ₂ - 2(Σ₁Σ₂)^½), where the trace of the root is Σ√λ over the eigenvalues λ of the
// symmetric Σ₁^½ Σ₂ Σ₁^½; not below 0. Covariances may be singular. NaN when a value is not finite.
double frechet_distance(const std::vector<double>& mean1, const std::vector<double>& covariance1,
                        const std::vector<double>& mean2, const std::vector<double>& covariance2);
double frechet_distance(const FeatureMoments& a, const FeatureMoments& b);

}  // namespace tandem::metrics
