// Communication cost of ranks, against published numbers.
#include "studies/scaling/model.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "core/error.h"

using namespace tandem;
using namespace tandem::scaling;

TEST_CASE("a ring takes latency for each hop and sends everything nearly twice", "[scaling]") {
  const Link link{1e-6, 1e9};
  CHECK(ring_seconds(1, 1e6, link) == 0.0);
  CHECK(ring_seconds(2, 1e6, link) == Approx(2e-6 + 1e-3));
  CHECK(ring_seconds(8, 1e6, link) == Approx(14e-6 + 1.75e-3));
}

TEST_CASE("the link behind measurements is found again", "[scaling]") {
  for (const int ranks : {2, 3, 8}) {
    const Link link{3e-6, 5e9};
    std::vector<Sample> samples;
    for (const double bytes : {4e3, 64e3, 1e6, 64e6})
      samples.push_back({bytes, ring_seconds(ranks, bytes, link)});
    const Link found = fitted(ranks, samples);
    CHECK(found.latency_s == Approx(link.latency_s));
    CHECK(found.bytes_per_s == Approx(link.bytes_per_s));
    // Off by some per cent, whatever the size.
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i].seconds *= i % 2 == 0 ? 1.05 : 0.95;
    CHECK(fitted(ranks, samples).latency_s == Approx(link.latency_s).epsilon(0.2));
    CHECK(fitted(ranks, samples).bytes_per_s == Approx(link.bytes_per_s).epsilon(0.2));
  }
}

TEST_CASE("a link has no negative numbers", "[scaling]") {
  // Small messages that are faster than the bandwidth of large ones allows, and the other way round.
  CHECK(fitted(2, std::vector<Sample>{{1e3, 1e-9}, {1e6, 1e-3}}).latency_s == 0.0);
  CHECK(fitted(2, std::vector<Sample>{{1e3, 1e-3}, {1e6, 1e-6}}).bytes_per_s ==
        std::numeric_limits<double>::infinity());
}

TEST_CASE("one size, or one rank, has no link", "[scaling]") {
  CHECK_THROWS_AS(fitted(2, std::vector<Sample>{{1e3, 1e-6}, {1e3, 2e-6}}), UserError);
  CHECK_THROWS_AS(fitted(1, std::vector<Sample>{{1e3, 1e-6}, {1e6, 2e-6}}), UserError);
}

TEST_CASE("ResNet-50's gradients on H100s are added up as published", "[scaling]") {
  // 25.56 M in FP16: 0.24 ms over NVLink and 0.02 ms of start, so a step of 32.2 ms is 99.2 % efficient;
  // eight nodes take 0.27 ms more.
  constexpr double kBytes = 25.56e6 * 2;
  const Cluster cluster = h100_cluster();
  CHECK(all_reduce_seconds(cluster, 1, kBytes) == 0.0);
  const double node = all_reduce_seconds(cluster, 8, kBytes), nodes = all_reduce_seconds(cluster, 64, kBytes);
  CHECK(node == Approx(0.26e-3).epsilon(0.15));
  CHECK(32.2e-3 / (32.2e-3 + node) == Approx(0.992).margin(0.001));
  CHECK(nodes - node == Approx(0.27e-3).epsilon(0.3));
  CHECK(all_reduce_seconds(cluster, 512, kBytes) > nodes);
  CHECK(least_step_seconds(1e-3, 0.9) == Approx(9e-3));
  const double least = least_step_seconds(node, 0.95);
  CHECK(least / (least + node) == Approx(0.95));
}
