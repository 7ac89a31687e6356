#include "train/perturbation.h"

#include <bit>
#include <cmath>
#include <limits>

#include "core/random.h"

namespace tandem::train {

namespace {

// Rank of a finite float in the order of all, with 0 at rank 0.
std::int32_t rank_of(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : std::numeric_limits<std::int32_t>::min() - bits;
}

float at_rank(std::int32_t rank) {
  return std::bit_cast<float>(rank >= 0 ? rank : std::numeric_limits<std::int32_t>::min() - rank);
}

}  // namespace

void perturb(nn::Module& model, std::uint64_t seed, std::int64_t ulps) {
  if (ulps == 0) return;
  std::uint32_t number = 0;
  for (const Parameter& parameter : model.parameters()) {
    RandomStream random({.seed = seed, .purpose = RandomPurpose::perturbation, .call = number++});
    const Tensor& value = parameter.value();
    std::uint32_t word = 0;
    for (Index i = 0; i < value.numel(); ++i, word >>= 1) {
      if (i % 32 == 0) word = random.next_word();
      float& element = value.data<float>()[i];
      if (!std::isfinite(element)) continue;
      const auto by = static_cast<std::int32_t>(ulps);
      const float moved = at_rank(rank_of(element) + ((word & 1U) != 0 ? by : -by));
      if (std::isfinite(moved)) element = moved;
    }
    value.storage()->bump_version();
  }
}

}  // namespace tandem::train
