// Kneser–Ney against probabilities worked out by hand.
#include "tests/baselines/kneser_ney.h"

#include <cmath>

#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using baselines::KneserNey;
using Ids = std::vector<std::int32_t>;

namespace {

const Ids kText{0, 1, 0, 1, 2, 0, 1, 0, 2};  // a b a b c a b a c

void check_row(const KneserNey& model, const Ids& history, double a, double b, double c) {
  CHECK(model.probability(history, 0) == Approx(a).margin(5e-7));
  CHECK(model.probability(history, 1) == Approx(b).margin(5e-7));
  CHECK(model.probability(history, 2) == Approx(c).margin(5e-7));
}

}  // namespace

TEST_CASE("Kneser-Ney of three words, worked out by hand", "[kneser_ney]") {
  const KneserNey model(kText, 3, 3, 0.5);
  check_row(model, {0, 1}, 0.65, 0.033333, 0.316667);
  check_row(model, {2, 0}, 0.066667, 0.783333, 0.15);
  check_row(model, {1, 1}, 0.45, 0.1, 0.45);  // never seen: as after one b
  check_row(model, {1}, 0.45, 0.1, 0.45);
  check_row(model, {}, 0.4, 0.2, 0.4);
  check_row(model, {2, 2, 1, 0, 1}, 0.65, 0.033333, 0.316667);  // the last two count
}

TEST_CASE("Kneser-Ney's discounts come from what is counted once and twice", "[kneser_ney]") {
  // Words seen before a, b, c: 2, 1, 2, so 1 / (1 + 2·2). Before ab, ba, bc, ca, ac: 2, 1, 1, 1, 1 → 4 / (4 +
  // 2·1). Trigrams aba 2, bab 1, abc 1, bca 1, cab 1, bac 1 → 5 / (5 + 2·1).
  const std::vector<double> discounts = KneserNey(kText, 3, 3).discounts();
  REQUIRE(discounts.size() == 3);
  CHECK(discounts[0] == Approx(1.0 / 5));
  CHECK(discounts[1] == Approx(4.0 / 6));
  CHECK(discounts[2] == Approx(5.0 / 7));
}

TEST_CASE("Kneser-Ney's probabilities sum to one", "[kneser_ney]") {
  for (const int order : {1, 2, 3, 5}) {
    const KneserNey model(kText, 5, order);  // two words never come
    for (std::int32_t x = 0; x < 5; ++x) {
      for (std::int32_t y = 0; y < 5; ++y) {
        double sum = 0.0;
        for (std::int32_t word = 0; word < 5; ++word) sum += model.probability(Ids{x, y}, word);
        CHECK(sum == Approx(1.0));
      }
    }
  }
  // One order counts the words themselves: a 4, b 3, c 2.
  check_row(KneserNey(kText, 3, 1, 0.5), {}, (3.5 + 0.5) / 9, (2.5 + 0.5) / 9, (1.5 + 0.5) / 9);
}

TEST_CASE("Kneser-Ney's perplexity predicts every word but the first", "[kneser_ney]") {
  const KneserNey model(kText, 3, 3, 0.5);
  // b after a; a after ab; c after ba.
  const double sum =
      std::log(model.probability(Ids{0}, 1)) + std::log(0.65) + std::log(model.probability(Ids{1, 0}, 2));
  CHECK(model.perplexity(Ids{0, 1, 0, 2}) == Approx(std::exp(-sum / 3)));
}

TEST_CASE("Kneser-Ney refuses what it cannot count", "[kneser_ney]") {
  CHECK_FAILS(UserError, KneserNey(kText, 3, 0), "[kneser_ney] an order of 0 lies outside [1, 10]");
  CHECK_FAILS(UserError, KneserNey(kText, 3, 11), "an order of 11 lies outside [1, 10]");
  CHECK_FAILS(UserError, KneserNey(kText, 2, 3), "[kneser_ney] word 2 lies outside a vocabulary of 2");
  CHECK_FAILS(UserError, KneserNey(Ids{0, 1}, 2, 3), "a text of 2 words has no n-gram of order 3");
  CHECK_FAILS(UserError, KneserNey(kText, 3, 3).perplexity(Ids{1}), "a text of 1 words predicts nothing");
}
