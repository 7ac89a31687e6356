#include "metrics/frechet.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace tandem::metrics {

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

Eigen::Map<const Vector> vector_of(const std::vector<double>& values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

Eigen::Map<const Matrix> square_of(const std::vector<double>& values, Eigen::Index side) {
  ensure(static_cast<Eigen::Index>(values.size()) == side * side, "frechet_distance",
         "the covariance has {} values, the mean has {}", values.size(), side);
  return {values.data(), side, side};
}

// Square roots of a covariance's eigenvalues, which are negative only by rounding.
std::vector<double> roots_of(const Vector& eigenvalues) {
  std::vector<double> roots;
  for (const double value : eigenvalues) roots.push_back(std::sqrt(std::max(value, 0.0)));
  return roots;
}

Matrix root_of(const Matrix& covariance) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(covariance);
  const std::vector<double> roots = roots_of(solver.eigenvalues());
  return solver.eigenvectors() * vector_of(roots).asDiagonal() * solver.eigenvectors().transpose();
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

void FeatureMoments::add(std::span<const float> rows, Index features) {
  const auto values_given = static_cast<Index>(rows.size());
  require(features > 0 && values_given % features == 0 && (count_ == 0 || features == features_), "features",
          "{} values in rows of {} features do not match rows of {}", values_given, features,
          count_ == 0 ? features : features_);
  if (rows.empty()) return;
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix values = Eigen::Map<const Rows>(rows.data(), values_given / features, features).cast<double>();
  if (count_ == 0) {
    features_ = features;
    const auto size = static_cast<std::size_t>(features_);
    origin_.resize(size);
    Eigen::Map<Vector>(origin_.data(), features_) = values.colwise().mean().transpose();
    sum_.assign(size, 0.0);
    products_.assign(size * size, 0.0);
  }
  const Matrix centred = values.rowwise() - vector_of(origin_).transpose();
  Eigen::Map<Vector>(sum_.data(), features_) += centred.colwise().sum().transpose();
  Eigen::Map<Matrix>(products_.data(), features_, features_)
      .selfadjointView<Eigen::Lower>()
      .rankUpdate(centred.transpose());
  count_ += values.rows();
}

std::vector<double> FeatureMoments::mean() const {
  std::vector<double> mean = origin_;
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += sum_[i] / static_cast<double>(count_);
  return mean;
}

std::vector<double> FeatureMoments::covariance() const {
  std::vector<double> covariance(products_.size());
  const auto sum = vector_of(sum_);
  const auto count = static_cast<double>(count_);
  const Matrix whole = square_of(products_, features_).selfadjointView<Eigen::Lower>();
  Eigen::Map<Matrix>(covariance.data(), features_, features_) =
      (whole - sum * sum.transpose() / count) / std::max(count - 1.0, 1.0);
  return covariance;
}

double frechet_distance(const std::vector<double>& mean1, const std::vector<double>& covariance1,
                        const std::vector<double>& mean2, const std::vector<double>& covariance2) {
  ensure(mean1.size() == mean2.size(), "frechet_distance", "the means have {} and {} features", mean1.size(),
         mean2.size());
  const auto features = static_cast<Eigen::Index>(mean1.size());
  const auto first = square_of(covariance1, features), second = square_of(covariance2, features);
  for (const auto* values : {&mean1, &covariance1, &mean2, &covariance2})
    if (!all_finite(*values)) return std::numeric_limits<double>::quiet_NaN();
  double distance = 0.0;
  for (Eigen::Index i = 0; i < features; ++i) {
    const double difference = mean1[static_cast<std::size_t>(i)] - mean2[static_cast<std::size_t>(i)];
    distance += difference * difference + first(i, i) + second(i, i);
  }
  const Matrix root = root_of(first);
  const Matrix product = root * second * root;
  const Matrix symmetric = (product + product.transpose()) / 2;
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(symmetric, Eigen::EigenvaluesOnly);
  for (const double shared : roots_of(solver.eigenvalues())) distance -= 2.0 * shared;
  return std::max(distance, 0.0);
}

double frechet_distance(const FeatureMoments& a, const FeatureMoments& b) {
  ensure(a.count() > 0 && b.count() > 0, "frechet_distance",
         "the sets have {} and {} samples, each needs one", a.count(), b.count());
  return frechet_distance(a.mean(), a.covariance(), b.mean(), b.covariance());
}

}  // namespace tandem::metrics
