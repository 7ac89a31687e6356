// Rows of autograd/ops/softmax.h.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/ops/softmax.h"
#include "tests/ops/harness.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace {

Oracle softmax_along(int axis, bool log) {
  return [=](const Arrays& x) {
    const int at = axis < 0 ? axis + x[0].shape.rank() : axis;
    const Array total = reduced(x[0], {at}, true, [](const std::vector<double>& v) {
      double sum = 0.0;
      for (const double e : v) sum += std::exp(e);
      return std::log(sum);
    });
    Array y = x[0];
    for_each_index(y.shape, [&](const Indices& i) {
      const double value = x[0].at(i) - broadcast_at(total, i);
      y.at(i) = log ? value : std::exp(value);
    });
    return y;
  };
}

}  // namespace

Rows tandem::test::softmax_rows() {
  Rows rows;
  for (const bool log : {false, true}) {
    for (const int axis : {-1, 0, 1}) {
      std::vector<Shapes> cases = {{{3, 4, 2}}, {{2, 5}},    {{1, 1}},     {{0, 3}},
                                   {{3, 0}},    {{67, 301}}, {{5, 131, 7}}};
      if (axis != 1) cases.push_back({{7}});
      rows.push_back(
          {.op = log ? "log_softmax" : "softmax",
           .variant = "axis " + std::to_string(axis),
           .run = [=](const TensorList& x) { return log ? log_softmax(x[0], axis) : softmax(x[0], axis); },
           .oracle = softmax_along(axis, log),
           .cases = std::move(cases),
           .draws = {{.low = -3, .high = 3}}});
    }
  }
  rows[0].refusals = {{"[softmax] axis 2 is out of range",
                       CALL(softmax(Tensor::zeros({2, 3}, {.device = test_device()}), 2))},
                      {"[softmax] expects a floating tensor, got i64[2]",
                       CALL(softmax(Tensor::zeros({2}, {.dtype = DType::i64, .device = test_device()})))}};
  rows[3].refusals = {{"[log_softmax] axis 0 is out of range",
                       CALL(log_softmax(Tensor::scalar(1, {.device = test_device()}), 0))},
                      {"[log_softmax] expects a floating tensor",
                       CALL(log_softmax(Tensor::zeros({2}, {.dtype = DType::u8, .device = test_device()})))}};
  return rows;
}

TEST_CASE("softmax subtracts the maximum", "[ops][softmax]") {
  const Tensor x = floats({1000, 1000, -1000, 1000}, {2, 2});
  CHECK(softmax(x).to_vector<double>() == std::vector<double>{0.5, 0.5, 0, 1});
  CHECK(log_softmax(x).to_vector<double>()[2] == -2000.0);
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(softmax(floats({-inf, 0}, {2})).to_vector<double>() == std::vector<double>{0, 1});
}
