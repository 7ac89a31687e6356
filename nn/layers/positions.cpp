#include "nn/layers/positions.h"

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "nn/device.h"

namespace tandem::nn {

namespace {

constexpr const char* kPositions = "sinusoidal_positions";
constexpr Index kFirstPositions = 512;

// f32 [count,features].
Tensor sinusoids(Index count, Index features) {
  require(features > 0, kPositions, "features must be positive, got {}", features);
  const Tensor table = Tensor::empty({count, features});
  float* const values = table.data<float>();
  for (Index c = 0; c < features; ++c) {
    const double even = static_cast<double>(c - c % 2);
    const double frequency = std::pow(10000.0, -even / static_cast<double>(features));
    for (Index p = 0; p < count; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      values[p * features + c] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace

SinusoidalPositions::SinusoidalPositions(Index features)
    : features_(features), table_(&add_constant("table", sinusoids(kFirstPositions, features))) {}

Tensor SinusoidalPositions::added(const Tensor& x, Index first) {
  require(x.defined() && x.rank() == 3 && x.size(2) == features_ && first >= 0, kPositions,
          "expects [N,T,{}] and a first position of at least 0, got {} and {}", features_, to_string(x),
          first);
  const Index last = first + x.size(1);
  const bool beyond = last > table_->size(0);
  if (beyond && (!longer_.defined() || last > longer_.size(0) || longer_.device() != table_->device()))
    longer_ = sinusoids(2 * last, features_).to(table_->device());
  return add(x, (beyond ? longer_ : *table_).rows(first, x.size(1)));
}

const Tensor& SinusoidalPositions::table(Index count) {
  if (count > table_->size(0)) {
    const BuildDevice same(table_->device());
    table_ = &add_constant(fmt::format("table_{}", count), sinusoids(count, features_));
  }
  return *table_;
}

std::string SinusoidalPositions::describe() const {
  return fmt::format("SinusoidalPositions({} features)", features_);
}

}  // namespace tandem::nn
