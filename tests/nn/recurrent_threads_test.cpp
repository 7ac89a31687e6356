// Recurrent layers on several threads, and over thousands of steps.
#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/modes.h"
#include "tests/nn/recurrent_run.h"
#include "tests/support/threads.h"
#include "tests/support/tolerance.h"

using namespace tandem;

using namespace test;

namespace {

void check_same(const RecurrentOutcome& a, const RecurrentOutcome& b, DType dtype) {
  CHECK((a.y == b.y));
  CHECK((a.h == b.h));
  CHECK((a.c == b.c));
  CHECK((a.dh == b.dh));
  CHECK((a.dc == b.dc));
  // Products with long sums, which a library may divide among threads.
  CHECK(normalised_error(a.dx, b.dx) <= tolerance_of(dtype).relative);
  REQUIRE(a.weights.size() == b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i)
    CHECK(normalised_error(a.weights[i], b.weights[i]) <= tolerance_of(dtype).relative);
}

}  // namespace

TEST_CASE("bits of recurrent layers do not depend on the number of threads", "[recurrent]") {
  for (const RnnCell cell : {RnnCell::lstm, RnnCell::gru, RnnCell::rnn_tanh}) {
    for (const bool projected : {false, true}) {
      if (projected && cell != RnnCell::lstm) continue;
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
        for (const bool recompute : {false, true}) {
          // As large as it takes for steps to be divided: of each gate, and of the projection, panels enough.
          // The product with the inputs is small enough for one thread: parts of it may have other kernels.
          const Index units = cell == RnnCell::rnn_tanh ? 293 : 150;
          const RecurrentLayer layer{.cell = cell,
                                     .steps = 18,
                                     .inputs = 4,
                                     .units = units,
                                     .outputs = projected ? 83 : units,
                                     .reverse = projected,
                                     .ragged = true,
                                     .dtype = dtype};
          INFO(layer.text() << (recompute ? ", recomputed" : ""));
          RecurrentOutcome one;
          {
            const test::ThreadCount threads(1);
            one = run(layer, recompute);
          }
          for (const int count : {2, 3, 5}) {
            INFO(count << " threads");
            const test::ThreadCount threads(count);
            check_same(run(layer, recompute), one, dtype);
          }
        }
      }
    }
  }
}

TEST_CASE("ten thousand steps go forward and backward", "[recurrent]") {
  for (const bool recompute : {false, true}) {
    const RecurrentLayer layer{
        .steps = 10'000, .rows = 3, .inputs = 2, .units = 3, .outputs = 3, .ragged = true};
    const RecurrentOutcome outcome = run(layer, recompute);
    CHECK(std::ranges::all_of(outcome.dx, [](double d) { return std::isfinite(d); }));
    CHECK(std::abs(outcome.dx.front()) > 0.0);
  }
}

TEST_CASE("two thousand steps of single ops go forward, backward and away", "[recurrent]") {
  const HigherOrder higher_order;
  const RecurrentLayer layer{.steps = 2'000, .rows = 3, .inputs = 2, .units = 3, .outputs = 3};
  const RecurrentOutcome composed = run(layer, false);
  CHECK(std::ranges::all_of(composed.dx, [](double d) { return std::isfinite(d); }));
  CHECK(std::abs(composed.dx.front()) > 0.0);
}
