// A gradient against a golden file: "gradient_norm/NAME", and "gradient/NAME" with all entries of a small
// one, otherwise those that tests/golden/resnet.py chooses.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "files/safetensors.h"
#include "models/weights.h"
#include "tests/golden/hashed.h"
#include "tests/support/tolerance.h"

namespace tandem {

inline void check_gradient(const Parameter& parameter, const safetensors::File& golden, double tolerance) {
  INFO(parameter.name());
  REQUIRE(parameter.gradient().defined());
  const auto gradient = models::to_file_layout(parameter.gradient(), parameter.layout()).to_vector<double>();
  double squares = 0.0;
  for (double g : gradient) squares += g * g;
  const double norm = golden.read("gradient_norm/" + parameter.name()).item();
  CHECK(std::sqrt(squares) == Approx(norm).epsilon(tolerance));
  const auto expected = golden.read("gradient/" + parameter.name()).to_vector<double>();
  CHECK(test::normalised_error(sampled(gradient, parameter.name()), expected) < tolerance);
}

}  // namespace tandem
