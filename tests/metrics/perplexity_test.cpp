// Perplexity: sums over batches, not means of means.
#include "metrics/perplexity.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"

using namespace tandem;
using metrics::Perplexity;

TEST_CASE("perplexity is of the corpus, whatever its batches", "[perplexity]") {
  // 3 targets of probability 1/2, 5 of 1/8: 2^((3 + 15)/8).
  Perplexity halves, eighths, both;
  halves.add(3 * std::log(2.0), 3);
  eighths.add(4 * std::log(8.0), 4);
  eighths.add(0.0, 0);
  eighths.add(std::log(8.0), 1);
  both.merge(halves);
  both.merge(eighths);
  CHECK(both.targets() == 8);
  CHECK(both.mean() == Approx(2.25 * std::log(2.0)).epsilon(1e-14));
  CHECK(both.value() == Approx(std::exp2(2.25)).epsilon(1e-14));
  CHECK(both.value() != Approx((halves.value() + eighths.value()) / 2));
  CHECK(both.bits_per_character(40) == Approx(18.0 / 40).epsilon(1e-14));
  CHECK(both.value_per(4) == Approx(std::exp2(4.5)).epsilon(1e-14));
}

TEST_CASE("a perplexity of ten million targets keeps its digits", "[perplexity]") {
  Perplexity perplexity;
  for (int batch = 0; batch < 1000; ++batch) perplexity.add(10000 * std::log(114.69), 10000);
  CHECK(perplexity.value() == Approx(114.69).epsilon(1e-12));
}

TEST_CASE("perplexities that are no finite numbers", "[perplexity]") {
  Perplexity none;
  CHECK(std::isnan(none.mean()));
  CHECK(std::isnan(none.value()));
  CHECK(std::isnan(none.bits_per_character(0)));

  Perplexity great;
  great.add(7090.0, 10);
  CHECK(std::isfinite(great.value()));
  great.add(710.0 * 990, 990);
  CHECK(great.value() == HUGE_VAL);
  CHECK(std::isnan(great.value_per(0)));
  CHECK(std::isnan(great.bits_per_character(0)));
  CHECK(great.bits_per_character(1000) == Approx(great.mean() / std::log(2.0)));
  great.add(std::numeric_limits<double>::quiet_NaN(), 1);
  CHECK(std::isnan(great.value()));

  CHECK_THROWS_WITH(none.add(1.0, -2), "[perplexity] the number of targets must be at least 0, got -2");
  CHECK_THROWS_WITH(none.add(1.5, 0),
                    "[perplexity] a sum over no targets must be 0, got 1.5: pass sums, not means");
  CHECK_THROWS_AS(none.bits_per_character(-1), UserError);
  CHECK_THROWS_AS(none.value_per(-1), UserError);
  CHECK(none.targets() == 0);
}
