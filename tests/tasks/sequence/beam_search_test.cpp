// Beam search over a toy model whose predictions depend on the whole history: against greedy search, a plain
// beam search that copies everything, and the enumeration of all hypotheses.
#include "tasks/sequence/beam_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/random.h"

using namespace tandem;
using tasks::beam_search;
using tasks::BeamHypothesis;
using tasks::BeamModel;
using tasks::BeamOptions;
using tasks::BeamPrediction;
using tasks::BeamStep;
using Hypotheses = std::vector<BeamHypothesis>;
using Tokens = std::vector<std::int32_t>;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int32_t kBegin = 1, kEnd = 2;

struct Toy {
  std::uint32_t seed;
  Index vocabulary, source;

  // Of the tokens so far, the begin included, in a sentence.
  std::vector<float> numbers(Index sentence, const Tokens& history, Index count, std::uint32_t call) const {
    std::uint64_t hash = 1469598103934665603U + static_cast<std::uint64_t>(sentence);
    for (const std::int32_t token : history)
      hash = (hash ^ static_cast<std::uint64_t>(token + 1)) * 1099511628211U;
    RandomStream stream({.seed = hash, .call = call, .step = seed});
    std::vector<float> values;
    double sum = 0.0;
    for (Index i = 0; i < count; ++i) sum += values.emplace_back(std::exp(stream.uniform(-2.0F, 2.0F)));
    for (float& value : values) value = static_cast<float>(value / sum);
    return values;
  }
  std::vector<float> log_probabilities(Index sentence, const Tokens& history) const {
    std::vector<float> values = numbers(sentence, history, vocabulary, 0);
    for (float& value : values) value = std::log(value);
    return values;
  }
  std::vector<float> attention(Index sentence, const Tokens& history) const {
    return numbers(sentence, history, source, 1);
  }
};

// The toy as a model that keeps the history of each row as its state, reordered by the parents that it is
// given.
struct ToyModel {
  Toy toy;
  Index width;
  Index first_sentence = 0;  // the number of the batch's first
  Index calls = 0;
  std::vector<Tokens> histories = {};
  std::vector<float> log_probabilities = {}, attention = {};

  BeamPrediction operator()(const BeamStep& step) {
    const std::size_t rows = step.tokens.size();
    REQUIRE(step.position == calls++);
    REQUIRE(step.parents.size() == rows);
    if (step.position == 0) histories.resize(rows);
    std::vector<Tokens> next;
    log_probabilities.clear();
    attention.clear();
    for (std::size_t row = 0; row < rows; ++row) {
      const auto parent = static_cast<std::size_t>(step.parents[row]);
      const Index sentence = static_cast<Index>(row) / width;
      REQUIRE(step.parents[row] / width == sentence);
      next.push_back(histories[parent]);
      next.back().push_back(step.tokens[row]);
      const auto p = toy.log_probabilities(first_sentence + sentence, next.back());
      const auto a = toy.attention(first_sentence + sentence, next.back());
      log_probabilities.insert(log_probabilities.end(), p.begin(), p.end());
      attention.insert(attention.end(), a.begin(), a.end());
    }
    histories = next;
    return {log_probabilities, attention};
  }
};

std::vector<Hypotheses> search(const Toy& toy, Index batch, const BeamOptions& options,
                               std::vector<Index> source_lengths = {}, Index first_sentence = 0) {
  ToyModel model{toy, options.width, first_sentence};
  return beam_search(std::ref(model), batch, options, source_lengths);
}

// A hypothesis with all that belongs to it, extended by copying.
struct Path {
  Tokens history{kBegin};
  double sum = 0.0;
  std::vector<double> attended = {};
  bool ended() const { return history.size() > 1 && history.back() == kEnd; }
};

std::vector<Path> extended(const Toy& toy, Index sentence, const Path& path) {
  const auto p = toy.log_probabilities(sentence, path.history);
  const auto a = toy.attention(sentence, path.history);
  std::vector<Path> result;
  for (std::size_t token = 0; token < p.size(); ++token) {
    Path& next = result.emplace_back(path);
    next.history.push_back(static_cast<std::int32_t>(token));
    next.sum += p[token];
    next.attended.resize(a.size());
    for (std::size_t word = 0; word < a.size(); ++word) next.attended[word] += a[word];
  }
  return result;
}

Hypotheses scored(const std::vector<Path>& paths, const BeamOptions& options, Index source_length) {
  Hypotheses result;
  for (const Path& path : paths) {
    double coverage = 0.0;
    for (Index word = 0; word < source_length; ++word)
      coverage += std::log(std::min(path.attended[static_cast<std::size_t>(word)], 1.0));
    const double length = static_cast<double>(path.history.size());
    const double score =
        path.sum / std::pow((5 + length) / 6, options.length_penalty) + options.coverage_penalty * coverage;
    const Tokens tokens(path.history.begin() + 1, path.history.end() - (path.ended() ? 1 : 0));
    result.push_back({tokens, path.ended(), path.sum, score});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  return result;
}

Hypotheses plain_search(const Toy& toy, Index sentence, const BeamOptions& options, Index source_length) {
  std::vector<Path> beam{{}};
  for (Index step = 0; step < options.max_length; ++step) {
    std::vector<Path> candidates;
    for (const Path& path : beam) {
      const auto next = path.ended() ? std::vector<Path>{path} : extended(toy, sentence, path);
      candidates.insert(candidates.end(), next.begin(), next.end());
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Path& a, const Path& b) { return a.sum > b.sum; });
    candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(options.width)));
    beam = candidates;
  }
  return scored(beam, options, source_length);
}

std::vector<Path> all_paths(const Toy& toy, Index sentence, const Path& path, Index steps) {
  if (path.ended() || steps == 0) return {path};
  std::vector<Path> result;
  for (const Path& next : extended(toy, sentence, path)) {
    const auto paths = all_paths(toy, sentence, next, steps - 1);
    result.insert(result.end(), paths.begin(), paths.end());
  }
  return result;
}

void check_same(const Hypotheses& found, const Hypotheses& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].tokens == expected[i].tokens);
    CHECK(found[i].ended == expected[i].ended);
    CHECK(found[i].log_probability == Approx(expected[i].log_probability).epsilon(1e-12));
    CHECK(found[i].score == Approx(expected[i].score).epsilon(1e-12));
  }
}

BeamOptions options_of(Index width, Index max_length, double alpha, double beta) {
  return {.width = width,
          .max_length = max_length,
          .begin = kBegin,
          .end = kEnd,
          .length_penalty = alpha,
          .coverage_penalty = beta};
}

// The same prediction at every step and row.
BeamModel constant(Index width, const std::vector<float>& log_probabilities,
                   const std::vector<float>& attention = {}) {
  const auto repeated = [width](const std::vector<float>& row) {
    std::vector<float> rows;
    for (Index i = 0; i < width; ++i) rows.insert(rows.end(), row.begin(), row.end());
    return rows;
  };
  return [p = repeated(log_probabilities), a = repeated(attention)](const BeamStep&) -> BeamPrediction {
    return {p, a};
  };
}

}  // namespace

TEST_CASE("penalties of length and coverage", "[beam_search]") {
  CHECK(tasks::length_penalty(1, 0.6) == 1.0);
  CHECK(tasks::length_penalty(5, 0.6) == Approx(1.358655).margin(5e-7).epsilon(0));
  CHECK(tasks::length_penalty(10, 0.6) == Approx(1.732862).margin(5e-7).epsilon(0));
  CHECK(tasks::length_penalty(20, 0.6) == Approx(2.354362).margin(5e-7).epsilon(0));
  CHECK(tasks::length_penalty(20, 0.0) == 1.0);
  CHECK(tasks::coverage_penalty(std::vector{0.5, 1.2, 0.9}) == Approx(-0.798508).margin(5e-7).epsilon(0));
  CHECK(tasks::coverage_penalty({}) == 0.0);
  // A word that was never attended has its price.
  CHECK(tasks::coverage_penalty(std::vector{1.0, 0.0}) == Approx(std::log(1e-6)));
}

TEST_CASE("a beam of 1 is greedy search", "[beam_search]") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Toy toy{seed, 7, 4};
    Path path;
    while (!path.ended() && path.history.size() <= 12) {
      const auto p = toy.log_probabilities(0, path.history);
      const auto best = std::max_element(p.begin(), p.end());
      path.history.push_back(static_cast<std::int32_t>(best - p.begin()));
      path.sum += *best;
    }
    check_same(search(toy, 1, options_of(1, 12, 0.6, 0.0)).at(0),
               scored({path}, options_of(1, 12, 0.6, 0.0), 0));
  }
}

TEST_CASE("a beam of full width finds what enumeration finds", "[beam_search]") {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    for (const auto& [alpha, beta] : {std::pair(0.0, 0.0), {0.6, 0.0}, {0.6, 0.1}, {1.0, 0.7}, {0.0, 2.0}}) {
      CAPTURE(seed, alpha, beta);
      const Toy toy{seed, 4, 3};
      const BeamOptions options = options_of(200, 4, alpha, beta);
      const std::vector<Path> paths = all_paths(toy, 0, {}, options.max_length);
      REQUIRE(paths.size() == 121);  // 1 + 3 + 9 + 27 that end, 81 that are cut
      check_same(search(toy, 1, options).at(0), scored(paths, options, toy.source));
    }
  }
}

TEST_CASE("narrow beams of several sentences are those of a plain search of each", "[beam_search]") {
  Index mixed = 0;  // sentences with hypotheses of several lengths, some ended and some cut
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    for (const Index width : {2, 3, 5}) {
      CAPTURE(seed, width);
      const Toy toy{seed, 5, 6};
      const BeamOptions options = options_of(width, 15, 0.6, 0.1);
      const std::vector<Index> source_lengths{6, 2, 0, 5};
      const auto found = search(toy, 4, options, source_lengths);
      REQUIRE(found.size() == 4);
      for (Index sentence = 0; sentence < 4; ++sentence) {
        const Index length = source_lengths[static_cast<std::size_t>(sentence)];
        const Hypotheses& each = found[static_cast<std::size_t>(sentence)];
        check_same(each, plain_search(toy, sentence, options, length));
        const auto ended = std::count_if(each.begin(), each.end(), [](const auto& one) { return one.ended; });
        if (ended > 0 && ended < static_cast<Index>(each.size())) ++mixed;
        // To the bit what it is alone.
        const Hypotheses alone = search(toy, 1, options, {length}, sentence).at(0);
        for (std::size_t i = 0; i < alone.size(); ++i) CHECK(alone[i].score == each[i].score);
      }
    }
  }
  CHECK(mixed > 10);
}

TEST_CASE("ties go to the lower beam, then the lower token", "[beam_search]") {
  const float p = std::log(0.25F);
  const auto found = beam_search(constant(3, {p, p, -kInfinity, p}), 1, options_of(3, 3, 0.6, 0.0)).at(0);
  REQUIRE(found.size() == 3);
  CHECK(found[0].tokens == Tokens{0, 0, 0});
  CHECK(found[1].tokens == Tokens{0, 0, 1});
  CHECK(found[2].tokens == Tokens{0, 0, 3});
}

TEST_CASE("an ended hypothesis is a candidate like others", "[beam_search]") {
  // It moves up when the other loses more than it does.
  const auto better = beam_search(constant(2, {-1.0F, -9.0F, -1.0F}), 1, options_of(2, 2, 0.0, 0.0)).at(0);
  REQUIRE(better.size() == 2);
  CHECK(better[0].tokens.empty());
  CHECK(better[0].ended);
  CHECK(better[1].tokens == Tokens{0, 0});
  CHECK_FALSE(better[1].ended);
  // At a tie its row counts, not its token: it stands in row 1, and its rival extends row 0.
  const BeamModel free = [](const BeamStep& step) -> BeamPrediction {
    static std::vector<float> values;
    values = {-1.0F, -9.0F, -1.0F, 0.0F, -1.0F, -9.0F, -1.0F, 0.0F};
    values[3] = values[7] = step.position == 0 ? -2.0F : 0.0F;
    return {values};
  };
  const auto tied = beam_search(free, 1, options_of(2, 2, 0.0, 0.0)).at(0);
  REQUIRE(tied.size() == 2);
  CHECK(tied[0].tokens == Tokens{0, 3});
  CHECK(tied[1].tokens.empty());
}

TEST_CASE("hypotheses that are cut are normalised, too", "[beam_search]") {
  const auto found =
      beam_search(constant(1, {-0.5F, -kInfinity, -3.0F}, {0.25F, 0.0F, 0.5F}), 1, options_of(1, 4, 0.6, 0.1))
          .at(0);
  REQUIRE(found.size() == 1);
  CHECK(found[0].tokens == Tokens{0, 0, 0, 0});
  CHECK_FALSE(found[0].ended);
  CHECK(found[0].log_probability == -2.0);
  CHECK(found[0].score == Approx(-2.0 / std::pow(10.0 / 6, 0.6) + 0.1 * std::log(1e-6)).epsilon(1e-12));
}

TEST_CASE("an ended hypothesis stays, at its price and length", "[beam_search]") {
  Index calls = 0;
  // The end at once, or after 0 without choice; of 5 beams 3 have no hypothesis.
  const BeamModel model = [&](const BeamStep& step) -> BeamPrediction {
    static std::vector<float> p;
    p.clear();
    if (step.position == 1) {
      CHECK(Tokens(step.tokens.begin(), step.tokens.end()) == Tokens{kEnd, 0, kEnd, kEnd, kEnd});
      CHECK(std::vector(step.parents.begin(), step.parents.end()) == std::vector<Index>{0, 0, 2, 3, 4});
    }
    for (std::size_t row = 0; row < 5; ++row) {
      const bool first = step.position == 0;
      const bool looked_at = first ? row == 0 : step.tokens[row] != kEnd;
      const std::vector<float> next = first ? std::vector{std::log(0.3F), -kInfinity, std::log(0.7F)}
                                            : std::vector{-kInfinity, -kInfinity, 0.0F};
      for (const float value : next) p.push_back(looked_at ? value : std::nanf(""));
    }
    ++calls;
    return {p};
  };
  const auto found = beam_search(model, 1, options_of(5, 9, 1.0, 0.0)).at(0);
  CHECK(calls == 2);
  REQUIRE(found.size() == 2);
  CHECK(found[0].tokens.empty());
  CHECK(found[0].ended);
  CHECK(found[0].score == Approx(std::log(0.7) * 6 / 7).epsilon(1e-6));
  CHECK(found[1].tokens == Tokens{0});
  CHECK(found[1].score == Approx(std::log(0.3) * 6 / 8).epsilon(1e-6));
  CHECK(beam_search(model, 0, options_of(5, 9, 1.0, 0.0)).empty());
}

TEST_CASE("invalid searches are refused", "[beam_search]") {
  using Catch::Matchers::Contains;
  const BeamOptions plain = options_of(2, 3, 0.6, 0.0), covering = options_of(2, 3, 0.6, 0.1);
  const std::vector<float> p{-1.0F, -2.0F, -1.5F};
  const auto with = [&](auto change) {
    BeamOptions options = plain;
    change(options);
    return options;
  };
  const BeamModel sound = constant(2, p, {0.5F, 0.5F});
  CHECK_NOTHROW(beam_search(sound, 1, covering));
  CHECK_THROWS_WITH(beam_search(constant(2, {-1.0F, -2.0F, std::nanf("")}), 1, plain),
                    Contains("sentence 0, beam 0, step 0: the log-probability of token 2 is nan"));
  CHECK_THROWS_WITH(beam_search(constant(2, {-1.0F, kInfinity, 0.0F}), 1, plain), Contains("token 1 is inf"));
  CHECK_THROWS_WITH(beam_search(constant(2, {-kInfinity, -kInfinity, -kInfinity}), 1, plain),
                    "[beam_search] sentence 0, step 0: no token has a probability above 0");
  CHECK_THROWS_WITH(beam_search(constant(2, p), 1, covering),
                    Contains("a coverage penalty needs attention [2 rows,S]") && Contains("got 0 values"));
  CHECK_THROWS_WITH(beam_search(constant(2, p, {0.5F, std::nanf("")}), 1, covering),
                    Contains("step 0: attention of source word 1 is nan"));
  CHECK_NOTHROW(beam_search(constant(2, p, {0.5F, std::nanf("")}), 1, plain));
  CHECK_THROWS_WITH(beam_search(constant(2, {-1.0F, -2.0F}), 1, plain),
                    Contains("V above the end 2, got 4 values"));
  CHECK_THROWS_AS(beam_search(constant(1, p), 1, plain), UserError);
  const BeamModel growing = [](const BeamStep& step) -> BeamPrediction {
    static std::vector<float> values;
    values.assign(static_cast<std::size_t>(2 * (4 + step.position)), -1.0F);
    return {values};
  };
  CHECK_THROWS_WITH(beam_search(growing, 1, plain),
                    Contains("step 1") && Contains("and 4 as before, got 10 values"));

  const std::vector<Index> longer{3}, two{1, 1}, negative{-1};
  CHECK_THROWS_WITH(beam_search(sound, 1, covering, longer),
                    Contains("sentence 0 has 3 source words, but attention covers only 2"));
  CHECK_THROWS_AS(beam_search(sound, 1, covering, two), UserError);
  CHECK_THROWS_AS(beam_search(sound, 1, covering, negative), UserError);
  CHECK_THROWS_AS(beam_search(sound, -1, plain), UserError);
  CHECK_THROWS_AS(beam_search(sound, 1, with([](auto& o) { o.width = 0; })), UserError);
  CHECK_THROWS_AS(beam_search(sound, 1, with([](auto& o) { o.max_length = 0; })), UserError);
  CHECK_THROWS_AS(beam_search(sound, 1, with([](auto& o) { o.begin = -1; })), UserError);
  CHECK_THROWS_AS(beam_search(sound, 1, with([](auto& o) { o.end = -1; })), UserError);
  CHECK_THROWS_AS(beam_search(sound, 1, with([](auto& o) { o.length_penalty = -1; })), UserError);
  CHECK_THROWS_AS(beam_search(sound, 1, with([](auto& o) { o.coverage_penalty = std::nan(""); })), UserError);
}
