// Recomputation in backward of recurrent layers: equal bits, from a sixteenth of the states.
#include <catch2/catch.hpp>

#include "core/kernels/rnn.h"
#include "nn/layers/recurrent.h"
#include "tests/nn/recurrent_run.h"
#include "tests/support/tolerance.h"

using namespace tandem;

using namespace test;

namespace {

constexpr RnnCell kCells[] = {RnnCell::lstm, RnnCell::gru, RnnCell::rnn_tanh, RnnCell::rnn_relu};

// Bytes that are saved beside the inputs and y, which others hold.
std::size_t own_bytes(const RecurrentLayer& layer, bool recompute) {
  std::size_t bytes = 0;
  const TensorList saved = run(layer, recompute).saved;
  REQUIRE(saved.size() >= 11);  // the inputs, y, gates and states; absent ones too
  for (std::size_t i = 9; i < saved.size(); ++i)
    if (saved[i].defined()) bytes += saved[i].bytes();
  return bytes;
}

}  // namespace

TEST_CASE("recurrent layers that compute their gates again give what those that keep them give",
          "[recurrent]") {
  for (const RnnCell cell : kCells) {
    for (const Index steps : {1, 15, 16, 17, 33}) {
      for (const int form : {0, 1, 2, 3, 4, 5, 6, 7}) {
        if (form >= 4 && cell != RnnCell::lstm) continue;
        for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
          const RecurrentLayer layer{.cell = cell,
                                     .steps = steps,
                                     .outputs = form >= 4 ? 11 : 19,
                                     .reverse = (form & 1) != 0,
                                     .ragged = (form & 2) != 0,
                                     .dtype = dtype};
          INFO(layer.text());
          const RecurrentOutcome kept = run(layer, false), again = run(layer, true);
          CHECK((again.y == kept.y));
          CHECK((again.h == kept.h));
          CHECK((again.c == kept.c));
          // Products of all steps, which come segment by segment, and may order their sums by their size.
          const auto check_product = [&](const std::vector<double>& a, const std::vector<double>& b) {
            if (steps <= kRnnSegment) CHECK((a == b));
            CHECK(normalised_error(a, b) <= tolerance_of(dtype).relative);
          };
          check_product(again.dx, kept.dx);
          check_product(again.dh, kept.dh);
          check_product(again.dc, kept.dc);
          REQUIRE(again.weights.size() == kept.weights.size());
          for (std::size_t i = 0; i < kept.weights.size(); ++i) {
            INFO("weight " << i);
            check_product(again.weights[i], kept.weights[i]);
          }
        }
      }
    }
  }
}

TEST_CASE(
    "an lstm saves 12 bytes a unit and step in 16 bits and 20 in f32, of a sixteenth its cells where it "
    "recomputes",
    "[recurrent]") {
  constexpr Index kSteps = 35, kCells = 35 * 3 * 19;
  for (const auto& [dtype, bytes] : {std::pair{DType::bf16, 12}, {DType::f16, 12}, {DType::f32, 20}}) {
    const RecurrentLayer lstm{.steps = kSteps, .dtype = dtype};
    CHECK(own_bytes(lstm, false) == static_cast<std::size_t>(kCells * bytes));
    CHECK(own_bytes(lstm, true) == 3 * 3 * 19 * 4);  // c before the steps 0, 16 and 32
    RecurrentLayer gru = lstm;
    gru.cell = RnnCell::gru;
    CHECK(own_bytes(gru, false) == static_cast<std::size_t>(kCells) * 4 * size_of(dtype));
    CHECK(own_bytes(gru, true) == 0);
    gru.cell = RnnCell::rnn_tanh;
    CHECK(own_bytes(gru, false) == 0);
  }
}

TEST_CASE("recurrent layers recompute where their options say so", "[recurrent]") {
  for (const bool recompute : {false, true}) {
    nn::Recurrent layers(3, 5, {.recompute = recompute});
    const Tensor y = layers(random_tensor({20, 2, 3}));
    const Tensor cells = node_of(y)->saved()[10];
    CHECK(cells.shape() == Shape{recompute ? 2 : 20, 2, 5});
  }
}
