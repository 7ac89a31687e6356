// Minimum cuts against all assignments of up to 14 variables.
#include "amp/plan/energy.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.h"
#include "tests/amp/plan/graphs.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::amp::plan;
using namespace tandem::test;

namespace {

// The terms of an energy as data, with costs by their definition; variables may be renamed.
struct Terms {
  struct Cast {
    int of;
    std::vector<int> users;
    std::int64_t ns;
  };
  int count = 0;
  std::vector<std::array<std::int64_t, 2>> costs;
  std::vector<std::pair<int, int>> implications;
  std::vector<Cast> down, up;
  std::map<int, bool> fixed;

  Energy energy(const std::vector<int>& names) const {
    const auto name = [&](int v) { return names[static_cast<std::size_t>(v)]; };
    const auto all = [&](std::vector<int> users) {
      for (int& user : users) user = name(user);
      return users;
    };
    Energy energy(count);
    energy.constant(17);
    for (int v = 0; v < count; ++v)
      energy.cost(name(v), costs[static_cast<std::size_t>(v)][0], costs[static_cast<std::size_t>(v)][1]);
    for (const auto& [u, v] : implications) energy.implies(name(u), name(v));
    for (const Cast& cast : down) energy.down_cast(name(cast.of), all(cast.users), cast.ns);
    for (const Cast& cast : up) energy.up_cast(name(cast.of), all(cast.users), cast.ns);
    for (const auto& [v, low] : fixed) energy.fix(name(v), low);
    return energy;
  }

  // Absent when it is not allowed.
  std::optional<std::int64_t> of(const Labels& x) const {
    const auto at = [&](int v) { return x[static_cast<std::size_t>(v)]; };
    std::int64_t sum = 17;
    for (int v = 0; v < count; ++v) sum += costs[static_cast<std::size_t>(v)][at(v)];
    for (const auto& [u, v] : implications)
      if (at(u) > at(v)) return std::nullopt;
    for (const auto& [v, low] : fixed)
      if (at(v) != low) return std::nullopt;
    for (const Cast& cast : down) {
      bool any = false;
      for (const int user : cast.users) any |= at(user);
      if (any && !at(cast.of)) sum += cast.ns;
    }
    for (const Cast& cast : up) {
      bool any = false;
      for (const int user : cast.users) any |= !at(user);
      if (any && at(cast.of)) sum += cast.ns;
    }
    return sum;
  }
};

Terms random_terms(Dice& dice) {
  Terms terms;
  terms.count = 1 + dice.below(11);
  const auto variable = [&] { return dice.below(terms.count); };
  const auto several = [&] {
    std::vector<int> users;
    for (int n = 1 + dice.below(3); n > 0; --n) users.push_back(variable());
    return users;
  };
  for (int v = 0; v < terms.count; ++v) terms.costs.push_back({dice.below(7), dice.below(7)});
  for (int n = dice.below(terms.count + 1); n > 0; --n)
    terms.implications.push_back({variable(), variable()});
  for (int n = dice.below(3); n > 0; --n) terms.down.push_back({variable(), several(), dice.below(6)});
  for (int n = dice.below(3); n > 0; --n) terms.up.push_back({variable(), several(), dice.below(6)});
  for (int n = dice.below(3); n > 0; --n) terms.fixed.emplace(variable(), dice.one_in(2));
  return terms;
}

Labels labels_of(int bits, int count) {
  Labels labels;
  for (int v = 0; v < count; ++v) labels.push_back((bits >> v) & 1);
  return labels;
}

// Least cost and the intersection of all assignments that have it.
std::optional<Minimum> by_trying(const Terms& terms) {
  std::optional<Minimum> best;
  for (int bits = 0; bits < 1 << terms.count; ++bits) {
    const Labels labels = labels_of(bits, terms.count);
    const auto ns = terms.of(labels);
    if (!ns || (best && *ns > best->ns)) continue;
    if (!best || *ns < best->ns) {
      best = {labels, *ns};
      continue;
    }
    for (std::size_t v = 0; v < labels.size(); ++v) best->labels[v] = best->labels[v] && labels[v];
  }
  return best;
}

}  // namespace

TEST_CASE("the least energy, and of several minima what is common to all", "[plan][cut]") {
  Dice dice(1);
  int ties = 0, impossible = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const Terms terms = random_terms(dice);
    std::vector<int> names(static_cast<std::size_t>(terms.count));
    std::iota(names.begin(), names.end(), 0);
    const Energy energy = terms.energy(names);
    const auto expected = by_trying(terms);
    const auto found = minimum(energy);
    CAPTURE(trial);
    REQUIRE(found.has_value() == expected.has_value());
    if (!expected) {
      ++impossible;
      continue;
    }
    REQUIRE(found->ns == expected->ns);
    REQUIRE(found->labels == expected->labels);
    int minima = 0;
    for (int bits = 0; bits < 1 << terms.count; ++bits) {
      const Labels labels = labels_of(bits, terms.count);
      REQUIRE(energy.of(labels) == terms.of(labels));
      minima += terms.of(labels) == expected->ns;
    }
    ties += minima > 1;
  }
  CHECK(ties > 200);
  CHECK(impossible > 10);
  CHECK(impossible < 600);
}

TEST_CASE("the numbering of variables does not matter", "[plan][cut]") {
  Dice dice(2);
  for (int trial = 0; trial < 300; ++trial) {
    const Terms terms = random_terms(dice);
    std::vector<int> names(static_cast<std::size_t>(terms.count));
    std::iota(names.begin(), names.end(), 0);
    const auto first = minimum(terms.energy(names));
    for (int i = terms.count - 1; i > 0; --i)
      std::swap(names[static_cast<std::size_t>(i)], names[static_cast<std::size_t>(dice.below(i + 1))]);
    const auto second = minimum(terms.energy(names));
    REQUIRE(first.has_value() == second.has_value());
    if (!first) continue;
    REQUIRE(first->ns == second->ns);
    for (int v = 0; v < terms.count; ++v)
      REQUIRE(first->labels[static_cast<std::size_t>(v)] ==
              second->labels[static_cast<std::size_t>(names[static_cast<std::size_t>(v)])]);
  }
}

TEST_CASE("a cast is paid once for all, in either direction", "[plan][cut]") {
  Energy energy(3);
  energy.down_cast(0, {1, 2}, 5);
  energy.up_cast(0, {1, 2}, 7);
  CHECK(energy.of({false, false, false}) == 0);
  CHECK(energy.of({false, true, false}) == 5);
  CHECK(energy.of({false, true, true}) == 5);
  CHECK(energy.of({true, true, true}) == 0);
  CHECK(energy.of({true, false, true}) == 7);
  CHECK(energy.of({true, false, false}) == 7);
}

TEST_CASE("equal costs are f32", "[plan][cut]") {
  Energy energy(2);
  energy.cost(0, 4, 4);
  energy.cost(1, 4, 3);
  CHECK(minimum(energy)->labels == Labels{false, true});
}

TEST_CASE("fixed variables may contradict each other", "[plan][cut]") {
  Energy energy(3);
  energy.fix(0, true);
  energy.fix(2, false);
  energy.implies(0, 1);
  CHECK(minimum(energy)->labels == Labels{true, true, false});
  energy.implies(1, 2);
  CHECK_FALSE(minimum(energy));
  Energy both(1);
  both.fix(0, true);
  both.fix(0, false);
  CHECK_FALSE(minimum(both));
  CHECK_FALSE(both.of({true}));
}

TEST_CASE("negative casts and too large costs are refused", "[plan][cut]") {
  Energy energy(2);
  CHECK_FAILS(InternalError, energy.down_cast(0, {1}, -1), "expected at least 0");
  CHECK_FAILS(InternalError, energy.up_cast(0, {1}, -1), "expected at least 0");
  energy.cost(0, std::int64_t{1} << 61, 0);
  energy.cost(1, std::int64_t{1} << 61, 0);
  CHECK_FAILS(UserError, minimum(energy), "more than 2^62 ns");
}
