// Fréchet distances, against SciPy (tests/golden/frechet.py).
#include "metrics/frechet.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/golden/frechet.h"
#include "tests/golden/hashed.h"

using namespace tandem;
using metrics::FeatureMoments;
using metrics::frechet_distance;

namespace {

Tensor features(const std::string& stream, Index rows, Index columns, float factor, float shift,
                float origin) {
  const Tensor x = signed_unit(stream, {rows, columns});
  const std::vector<float> raw = x.to_vector<float>();
  std::vector<float> values;
  for (Index i = 0; i < x.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float value = i % columns > 0 ? 0.5F * raw[at] + 0.5F * raw[at - 1] : raw[at];
    const float moved = factor * std::max(value, -0.25F) + shift;
    values.push_back(moved + origin);
  }
  return Tensor::from(values, {rows, columns});
}

void add(FeatureMoments& moments, const Tensor& rows) { moments.add(rows.to_vector<float>(), rows.size(1)); }

FeatureMoments moments_of(const Tensor& rows, Index portion) {
  FeatureMoments moments;
  for (Index i = 0; i < rows.size(0); i += portion)
    add(moments, rows.rows(i, std::min(portion, rows.size(0) - i)));
  return moments;
}

}  // namespace

TEST_CASE("the Fréchet distance of two normal distributions", "[frechet]") {
  const std::vector<double> origin{0, 0}, mean{1, -1}, one{1, .5, .5, 2}, two{2, 0, 0, 1};
  const double distance = frechet_distance(origin, one, mean, two);
  CHECK(distance == Approx(2.435233).margin(5e-7));
  CHECK(distance == Approx(golden::kFrechetOfTwo).epsilon(1e-13));
  CHECK(frechet_distance(mean, two, origin, one) == Approx(distance).epsilon(1e-13));
  CHECK(frechet_distance(origin, one, origin, one) == Approx(0.0).margin(1e-14));
  CHECK(frechet_distance(origin, one, mean, one) == Approx(2.0));
  // Point masses: the squared distance of the means alone.
  CHECK(frechet_distance(origin, {0, 0, 0, 0}, mean, {0, 0, 0, 0}) == 2.0);
}

TEST_CASE("Fréchet distances between samples agree with SciPy's", "[frechet]") {
  for (const golden::FrechetCase& c : golden::kFrechetCases) {
    CAPTURE(c.name);
    const std::string name = c.name;
    const Tensor x = features(name + " 1", c.rows1, c.features, 1.0F, 0.0F, c.origin);
    const Tensor y = features(name + " 2", c.rows2, c.features, c.factor, c.shift, c.origin);
    // The roots of eigenvalues that are 0 but for rounding.
    const double margin = std::min(c.rows1, c.rows2) <= c.features ? 1e-6 : 1e-10;
    for (const Index portion : {1000, 32, 1}) {
      const double distance = frechet_distance(moments_of(x, portion), moments_of(y, portion));
      CHECK(distance == Approx(c.distance).epsilon(1e-9).margin(margin));
    }
    CHECK(frechet_distance(moments_of(x, 7), moments_of(x, 32)) == Approx(0.0).margin(1e-6));
  }
}

TEST_CASE("moments of rows that are no numbers give no distance", "[frechet]") {
  FeatureMoments sound, broken;
  sound.add(std::vector{0.0F, 1.0F, 2.0F, 5.0F}, 2);
  broken.add(std::vector{0.0F, 1.0F, 2.0F, std::nanf("")}, 2);
  CHECK(std::isnan(frechet_distance(sound, broken)));
  CHECK(std::isnan(frechet_distance(broken, sound)));
  CHECK(sound.mean() == std::vector<double>{1, 3});
  CHECK(sound.covariance() == std::vector<double>{2, 4, 4, 8});
  CHECK_THROWS_AS(sound.add(std::vector(6, 0.0F), 3), UserError);
  CHECK_THROWS_AS(sound.add(std::vector(3, 0.0F), 2), UserError);
}
