// Classes drawn log-uniformly, and the batches that carry them.
#include "data/text/log_uniform.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "core/error.h"
#include "data/loader.h"
#include "data/text/candidate_source.h"
#include "data/text/stream_source.h"

using namespace tandem;
using namespace tandem::datasets;

namespace {

using Ids = std::vector<std::int64_t>;

std::shared_ptr<const CandidateSource> source_of(const CandidateOptions& options) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(i * 7 % 20);
  return std::make_shared<CandidateSource>(
      std::make_shared<StreamSource>(std::make_shared<const PackedIds>(ids),
                                     StreamOptions{.streams = 3, .steps = 7}),
      options);
}

Batch batch_of(const CandidateSource& source, const BatchKey& key) {
  BatchBuffer buffer(source.layout(), Tensor::zeros({source.layout().bytes()}, {.dtype = DType::u8}));
  source.fill(key, false, buffer);
  return buffer.in(buffer.block());
}

}  // namespace

TEST_CASE("log-uniform classes have TensorFlow's probabilities", "[vocabulary]") {
  const LogUniform ten(10);
  const double expected[] = {.289065, .169092, .119973, .093058};
  for (Index k = 0; k < 4; ++k) CHECK(ten.probability(k) == Approx(expected[k]).margin(6e-7));
  double sum = 0.0;
  for (Index k = 0; k < 10; ++k) {
    CHECK(ten.probability_below(k) == Approx(sum).margin(1e-12));
    sum += ten.probability(k);
  }
  CHECK(sum == Approx(1.0));
  CHECK_THROWS_WITH(LogUniform(0), Catch::Contains("there are 0 classes"));
}

TEST_CASE("classes are drawn as often as is expected of them", "[vocabulary]") {
  constexpr Index kDraws = 40000;
  const LogUniform ten(10);
  RandomStream random({.seed = 7});
  std::vector<double> counts(10, 0.0);
  for (Index i = 0; i < kDraws; ++i) counts.at(static_cast<std::size_t>(ten.draw(random))) += 1.0;
  for (Index k = 0; k < 10; ++k) {
    const double p = ten.probability(k), deviation = std::sqrt(p * (1.0 - p) * kDraws);
    CHECK(std::abs(counts[static_cast<std::size_t>(k)] - p * kDraws) < 4.5 * deviation);
  }
  // A class that stands once or not at all among unique candidates: over many sets, as often as Q says.
  const CandidateOptions options{.classes = 10, .samples = 4};
  std::vector<double> seen(10, 0.0), expected(10, 0.0);
  const Ids all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (std::uint32_t set = 0; set < 4000; ++set) {
    const Candidates drawn = draw_candidates(options, {.seed = 5, .call = set});
    CHECK(std::set(drawn.ids.begin(), drawn.ids.end()).size() == 4);
    CHECK(drawn.tries >= 4);
    for (const std::int64_t id : drawn.ids) seen.at(static_cast<std::size_t>(id)) += 1.0;
    const std::vector<float> log_q = log_counts(options, drawn.tries, all);
    for (std::size_t k = 0; k < 10; ++k) expected[k] += std::exp(static_cast<double>(log_q[k]));
  }
  // Knowing the tries of a set, Q is near the truth and not the truth itself.
  for (std::size_t k = 0; k < 10; ++k) CHECK(seen[k] == Approx(expected[k]).epsilon(0.15));
}

TEST_CASE("log counts follow the rule of the draw", "[vocabulary]") {
  const double p = std::log(4.0 / 3.0) / std::log(11.0);  // of class 2 of ten
  CHECK(log_counts({10, 3, false}, 3, Ids{2}).front() == Approx(std::log(3 * p)));
  CHECK(log_counts({10, 3, true}, 7, Ids{2}).front() == Approx(std::log(1 - std::pow(1 - p, 7))));
  CHECK(log_counts({10, 3, true}, 7, Ids{-1}).front() == 0.0f);
  // ln Q of the candidates 2, 0 and 7 that correct the logits 1, .5 and -.3 to 2.021878, .642492, 1.614890.
  const std::vector<float> three = log_counts({10, 3, false}, 3, Ids{2, 0, 7});
  CHECK(1.0 - static_cast<double>(three[0]) == Approx(2.021878).margin(1e-6));
  CHECK(.5 - static_cast<double>(three[1]) == Approx(.642492).margin(1e-6));
  CHECK(-.3 - static_cast<double>(three[2]) == Approx(1.614890).margin(1e-6));
}

TEST_CASE("too many different candidates are refused", "[vocabulary]") {
  CHECK_THROWS_WITH(check({.classes = 10, .samples = 11}),
                    Catch::Contains("11 distinct samples cannot be drawn from 10 classes"));
  CHECK_THROWS_WITH(check({.classes = 10, .samples = 0}), Catch::Contains("0 samples"));
  CHECK_NOTHROW(check({.classes = 10, .samples = 11, .unique = false}));
  CHECK(draw_candidates({.classes = 10, .samples = 10}, {}).ids.size() == 10);
}

TEST_CASE("the candidates of a batch are a function of seed, epoch and number", "[vocabulary]") {
  const CandidateOptions options{.classes = 20, .samples = 6, .seed = 3};
  const auto source = source_of(options);
  const auto ids = [](const Batch& batch) { return batch["candidate"].to_vector<std::int64_t>(); };
  const Batch first = batch_of(*source, {0, 1});
  CHECK(ids(first) == ids(batch_of(*source_of(options), {0, 1})));
  CHECK(ids(first) != ids(batch_of(*source, {0, 2})));
  CHECK(ids(first) != ids(batch_of(*source, {1, 1})));
  CandidateOptions other = options;
  other.seed = 4;
  CHECK(ids(first) != ids(batch_of(*source_of(other), {0, 1})));
  CHECK(first.samples == 21);
  CHECK(first["candidate_log_count"].shape() == Shape{6});
  CHECK(first["target_log_count"].shape() == first["target"].shape());
  // The last batch is padded: no target, no count.
  const Batch last = batch_of(*source, {0, source->batches(0) - 1});
  const auto targets = last["target"].to_vector<std::int64_t>();
  const auto counts = last["target_log_count"].to_vector<float>();
  REQUIRE(targets.back() == kNoTarget);
  for (std::size_t i = 0; i < targets.size(); ++i) CHECK((counts[i] == 0.0f) == (targets[i] == kNoTarget));
}
