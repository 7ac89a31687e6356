// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), for host and device:
// four words as a pure function of a key and a block number.
#pragma once

#include <cstdint>

#include "core/kernels/math.h"
#include "core/random.h"

namespace tandem::kernels {

struct PhiloxBlock {
  std::uint32_t word[4];
};

// The key with the value of its counter, if any, added to the step.
TANDEM_HD RandomKey resolved(RandomKey key) {
  if (key.counter) key.step += static_cast<std::uint32_t>(*key.counter);
  key.counter = nullptr;
  return key;
}

// Requires a resolved key. Generator key: the seed. Generator counter: block, call, step, and purpose with
// the micro-batch in its lower 12 bits.
TANDEM_HD PhiloxBlock philox(const RandomKey& key, std::uint32_t block) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kFactor0 = 0xD2511F53u, kFactor2 = 0xCD9E8D57u;
  constexpr std::uint32_t kStep0 = 0x9E3779B9u, kStep1 = 0xBB67AE85u;  // golden ratio; √3 - 1
  std::uint32_t key0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(key.seed >> 32);
  std::uint32_t c0 = block, c1 = key.call, c2 = key.step;
  std::uint32_t c3 = static_cast<std::uint32_t>(key.purpose) << 12 | (key.micro_batch & 0xfffu);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kFactor0 * c0, product2 = kFactor2 * c2;
    c0 = static_cast<std::uint32_t>(product2 >> 32) ^ c1 ^ key0;
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<std::uint32_t>(product2);
    c3 = static_cast<std::uint32_t>(product0);
    key0 += kStep0;
    key1 += kStep1;
  }
  return {{c0, c1, c2, c3}};
}

// Uniform in [0, 1) with 24 bits.
TANDEM_HD float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace tandem::kernels
