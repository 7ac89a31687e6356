#include "core/random.h"

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/kernels/philox.h"
#include "core/random_state.h"

namespace tandem {

std::array<std::uint32_t, 4> philox(const RandomKey& key, std::uint32_t block) {
  const kernels::PhiloxBlock words = kernels::philox(kernels::resolved(key), block);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

std::uint32_t RandomStream::next_word() {
  if (used_ == 4) {
    words_ = philox(key_, block_++);
    used_ = 0;
  }
  return words_[used_++];
}

std::uint32_t RandomStream::below(std::uint32_t bound) {
  ensure(bound > 0, "random", "below({}) has no value to return", bound);
  const std::uint32_t reject = -bound % bound;
  for (;;) {
    const std::uint64_t product = std::uint64_t{next_word()} * bound;
    if (static_cast<std::uint32_t>(product) >= reject) return static_cast<std::uint32_t>(product >> 32);
  }
}

double RandomStream::normal() {
  const double u = (next_word() + 0.5) * 0x1p-32;
  const double v = (next_word() + 0.5) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

double RandomStream::gamma(double shape) {
  if (shape < 1.0) {
    const double u = (next_word() + 0.5) * 0x1p-32;
    return gamma(shape + 1.0) * std::pow(u, 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0.0) continue;
    const double u = (next_word() + 0.5) * 0x1p-32;
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double RandomStream::beta(double a, double b) {
  const double x = gamma(a);
  const double y = gamma(b);
  return x / (x + y);
}

namespace {
thread_local RandomKey current;
}

RandomScope::RandomScope(std::uint64_t seed, std::uint32_t step, std::uint32_t micro_batch,
                         const std::int64_t* counter)
    : ScopedValue(current, {.seed = seed, .step = step, .micro_batch = micro_batch, .counter = counter}) {
  require(micro_batch < 4096, "random", "at most 4096 micro-batches per step, got index {}", micro_batch);
}

RandomStateScope::RandomStateScope(const RandomKey& state) : ScopedValue(current, state) {}

RandomKey random_state() { return current; }

RandomKey next_random_key(RandomPurpose purpose) {
  RandomKey key = current;
  key.purpose = purpose;
  ++current.call;
  return key;
}

}  // namespace tandem
