// Fréchet distance between two sets of features, each modelled as a normal distribution (Dowson and Landau
// 1982; Heusel et al. 2017 apply it to Inception's features and call it FID). All arithmetic is FP64.
#pragma once

#include <span>
#include <vector>

#include "core/shape.h"

namespace tandem::metrics {

// Mean and covariance of rows, accumulated over batches.
class FeatureMoments {
 public:
  // `rows` is [N,features], row by row. Throws UserError unless all batches have equal `features`.
  void add(std::span<const float> rows, Index features);

  Index count() const { return count_; }
  Index features() const { return features_; }
  std::vector<double> mean() const;        // [F]
  std::vector<double> covariance() const;  // [F,F], divided by max(count - 1, 1)

 private:
  Index count_ = 0, features_ = 0;
  // Sums of the rows minus `origin_`, and of the outer products of these differences (lower triangle only).
  // An origin close to the rows avoids cancellation in the covariance.
  std::vector<double> origin_, sum_, products_;
};

// |μ₁-μ₂|² + tr(Σ₁ + Σ₂ - 2(Σ₁Σ₂)^½), where the trace of the root is Σ√λ over the eigenvalues λ of the
// symmetric Σ₁^½ Σ₂ Σ₁^½; not below 0. Covariances may be singular. NaN when a value is not finite.
double frechet_distance(const std::vector<double>& mean1, const std::vector<double>& covariance1,
                        const std::vector<double>& mean2, const std::vector<double>& covariance2);
double frechet_distance(const FeatureMoments& a, const FeatureMoments& b);

}  // namespace tandem::metrics
