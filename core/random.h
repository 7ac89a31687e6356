// Random numbers as a pure function of (seed, purpose, call, step, micro-batch, element): Philox4x32-10 of
// Random123 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). No state, hence no
// dependence on threads, workers or ranks; the same key regenerates the same numbers in backward.
#pragma once

#include <array>
#include <cstdint>

#include "core/scoped_value.h"

namespace tandem {

// Purpose of random numbers; purposes never share a stream. The values are part of the checkpoint format.
enum class RandomPurpose : std::uint32_t {
  user = 0,
  initialisation = 1,
  dropout = 2,
  shuffle = 3,
  augmentation = 4,
  mixing = 5,  // mixup and CutMix
  synthetic_data = 6,
  perturbation = 7,  // of initial weights
  rounding = 8,      // stochastic, of updated weights
};

struct RandomKey {
  std::uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::user;
  std::uint32_t call = 0;         // number of the call within a step, the parameter, or the sample
  std::uint32_t step = 0;         // attempted step; epoch for data
  std::uint32_t micro_batch = 0;  // at most 4095
  // If set, added to the step when the numbers are generated. In memory of the generating device, so that
  // recorded work draws new numbers in each replay.
  const std::int64_t* counter = nullptr;
};

// Four independent 32-bit words for each block index. The key's counter, if any, must be host memory.
std::array<std::uint32_t, 4> philox(const RandomKey& key, std::uint32_t block);

// Uniform in [0, 1) with 24 bits.
inline float to_unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Sequential reader of one key's stream, for few numbers on the host.
class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key) : key_(key) {}

  std::uint32_t next_word();
  float uniform() { return to_unit_float(next_word()); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // Uniform in [0, bound) without bias (Lemire's multiplication with rejection); bound > 0.
  std::uint32_t below(std::uint32_t bound);
  double normal();             // mean 0, variance 1 (Box–Muller)
  double gamma(double shape);  // shape > 0, scale 1 (Marsaglia and Tsang 2000)
  double beta(double a, double b);

 private:
  RandomKey key_;
  std::array<std::uint32_t, 4> words_{};
  std::uint32_t block_ = 0;
  int used_ = 4;
};

// The (seed, step, micro-batch) of random ops on this thread, and their call counter.
class RandomScope : ScopedValue<RandomKey> {
 public:
  // `counter`: see RandomKey; must outlive all work of the scope, including backward.
  RandomScope(std::uint64_t seed, std::uint32_t step, std::uint32_t micro_batch,
              const std::int64_t* counter = nullptr);
};

// The key of the next random op on this thread; advances the call counter. Outside a RandomScope seed and
// step are 0, and calls count from the start of the thread.
RandomKey next_random_key(RandomPurpose purpose);

}  // namespace tandem
