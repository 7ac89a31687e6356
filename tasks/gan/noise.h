// Fixed noise for evaluations and predictions.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tandem::tasks {

// z row by row: row i depends only on the seed and i. It shares no random numbers with training for any seed.
class FixedNoise {
 public:
  // Starts at row `first`.
  FixedNoise(std::uint64_t seed, Index width, Index first = 0);

  // The next rows, f32 [rows,1,1,width], on `device`.
  Tensor next(Index rows, Device device);

 private:
  Tensor draw();  // one block

  std::uint64_t seed_;
  Index width_;
  std::uint32_t block_ = 0;  // next block
  Tensor drawn_;             // rest of the last block, absent or not empty
};

}  // namespace tandem::tasks
