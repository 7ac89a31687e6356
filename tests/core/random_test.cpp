// Philox against its authors' vectors, and the distributions drawn from it.
#include "core/random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/errors.h"

using namespace tandem;

namespace {

using Words = std::array<std::uint32_t, 4>;

// philox() with the four counter words and two key words of the published vectors.
Words philox_words(const Words& counter, std::uint32_t key0, std::uint32_t key1) {
  const RandomKey key{.seed = std::uint64_t{key1} << 32 | key0,
                      .purpose = static_cast<RandomPurpose>(counter[3] >> 12),
                      .call = counter[1],
                      .step = counter[2],
                      .micro_batch = counter[3] & 0xfff};
  return philox(key, counter[0]);
}

template <class Draw>
std::pair<double, double> mean_and_variance(int count, Draw&& draw) {
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < count; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

std::vector<std::uint32_t> first_words(const RandomKey& key) {
  RandomStream stream(key);
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 16; ++i) words.push_back(stream.next_word());
  return words;
}

}  // namespace

TEST_CASE("known answers of philox4x32-10 (Random123, kat_vectors)", "[random]") {
  CHECK(philox_words({0, 0, 0, 0}, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox_words({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("every part of a key changes the stream", "[random]") {
  const RandomKey base{.seed = 5, .purpose = RandomPurpose::dropout, .call = 1, .step = 2, .micro_batch = 3};
  std::set<std::vector<std::uint32_t>> streams{first_words(base)};
  const auto differs = [&](RandomKey key) { return streams.insert(first_words(key)).second; };
  RandomKey key = base;
  key.seed = 6;
  CHECK(differs(key));
  key.seed = base.seed + (std::uint64_t{1} << 32);
  CHECK(differs(key));
  for (const auto purpose :
       {RandomPurpose::user, RandomPurpose::initialisation, RandomPurpose::shuffle,
        RandomPurpose::augmentation, RandomPurpose::mixing, RandomPurpose::synthetic_data}) {
    key = base;
    key.purpose = purpose;
    CHECK(differs(key));
  }
  key = base;
  key.call = 2;
  CHECK(differs(key));
  key = base;
  key.step = 3;
  CHECK(differs(key));
  key = base;
  key.micro_batch = 4;
  CHECK(differs(key));
  CHECK_FALSE(differs(base));
}

TEST_CASE("a stream reads the blocks of its key in order", "[random]") {
  const RandomKey key{.seed = 11};
  RandomStream stream(key);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : philox(key, block)) CHECK(stream.next_word() == word);
  }
}

TEST_CASE("uniform numbers", "[random]") {
  CHECK(to_unit_float(0) == 0.0f);
  CHECK(to_unit_float(~0u) == 1.0f - 0x1p-24f);
  RandomStream stream({.seed = 1});
  float low = 1.0f, high = 0.0f;
  const auto [mean, variance] = mean_and_variance(200000, [&] {
    const float value = stream.uniform();
    low = std::min(low, value);
    high = std::max(high, value);
    return value;
  });
  CHECK(low >= 0.0f);
  CHECK(high < 1.0f);
  CHECK(mean == Approx(0.5).margin(0.003));
  CHECK(variance == Approx(1.0 / 12).margin(0.002));
  for (int i = 0; i < 1000; ++i) {
    const float value = stream.uniform(-3.0f, -2.0f);
    REQUIRE((value >= -3.0f && value < -2.0f));
  }
}

TEST_CASE("below() reaches every value equally often", "[random]") {
  RandomStream stream({.seed = 2});
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i) ++counts.at(stream.below(7));
  for (const int count : counts) CHECK(count == Approx(10000).margin(400));
  for (int i = 0; i < 100; ++i) CHECK(stream.below(1) == 0);
  // A bound just above a power of two would be visibly biased without rejection.
  const std::uint32_t bound = (1u << 31) + (1u << 30);
  int low = 0;
  for (int i = 0; i < 30000; ++i) low += stream.below(bound) < bound / 3;
  CHECK(low == Approx(10000).margin(400));
  CHECK_FAILS(InternalError, stream.below(0), "below(0)");
  // The words whose product leaves less than 2^32 mod bound are the ones that are passed over (Lemire 2019).
  for (const std::uint32_t odd : {bound + 1, bound - 12345, 7u}) {
    RandomStream words({.seed = 8}), drawn({.seed = 8});
    for (int i = 0; i < 1000; ++i) {
      std::uint64_t product = 0;
      do {
        product = std::uint64_t{words.next_word()} * odd;
      } while ((product & 0xffffffffu) < (std::uint64_t{1} << 32) % odd);
      REQUIRE(drawn.below(odd) == product >> 32);
    }
  }
}

TEST_CASE("normal, gamma and beta numbers have their moments", "[random]") {
  RandomStream stream({.seed = 3});
  const auto [mean, variance] = mean_and_variance(200000, [&] { return stream.normal(); });
  CHECK(mean == Approx(0.0).margin(0.01));
  CHECK(variance == Approx(1.0).margin(0.02));
  int beyond = 0;
  for (int i = 0; i < 100000; ++i) beyond += std::abs(stream.normal()) > 1.959964;
  CHECK(beyond == Approx(5000).margin(300));
  for (const double shape : {0.3, 1.0, 4.5}) {
    const auto [m, v] = mean_and_variance(200000, [&] { return stream.gamma(shape); });
    CHECK(m == Approx(shape).epsilon(0.03));
    CHECK(v == Approx(shape).epsilon(0.06));
  }
  for (const auto& [a, b] : {std::pair{0.2, 0.2}, std::pair{2.0, 5.0}}) {
    const auto [m, v] = mean_and_variance(200000, [&, a = a, b = b] { return stream.beta(a, b); });
    CHECK(m == Approx(a / (a + b)).margin(0.005));
    CHECK(v == Approx(a * b / ((a + b) * (a + b) * (a + b + 1))).epsilon(0.04));
  }
}

TEST_CASE("a scope gives keys by call, and restores the outer one", "[random]") {
  const RandomScope outer(1, 10, 0);
  CHECK(next_random_key(RandomPurpose::dropout).call == 0);
  {
    const RandomScope inner(2, 20, 5);
    const RandomKey key = next_random_key(RandomPurpose::dropout);
    CHECK(key.seed == 2);
    CHECK(key.step == 20);
    CHECK(key.micro_batch == 5);
    CHECK(key.call == 0);
    CHECK(key.purpose == RandomPurpose::dropout);
    CHECK(next_random_key(RandomPurpose::user).call == 1);
  }
  const RandomKey key = next_random_key(RandomPurpose::dropout);
  CHECK(key.seed == 1);
  CHECK(key.call == 1);
  CHECK_FAILS(UserError, RandomScope(0, 0, 4096), "4096");
}

TEST_CASE("keys do not depend on other threads", "[random]") {
  const RandomScope scope(9, 1, 0);
  next_random_key(RandomPurpose::user);
  std::thread([] {
    const RandomKey key = next_random_key(RandomPurpose::user);
    CHECK(key.seed == 0);
    CHECK(key.call == 0);
  }).join();
  CHECK(next_random_key(RandomPurpose::user).call == 1);
}
