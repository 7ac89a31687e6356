// The numbers that evaluations and predictions make images from.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tandem::tasks {

// z row by row: row i depends on the seed and i alone, not on how many are asked for at once or where. It
// shares no numbers with training, whatever its seed.
class FixedNoise {
 public:
  // From row `first` on.
  FixedNoise(std::uint64_t seed, Index width, Index first = 0);

  // The next rows, f32 [rows,1,1,width], on `device`.
  Tensor next(Index rows, Device device);

 private:
  Tensor draw();  // a block

  std::uint64_t seed_;
  Index width_;
  std::uint32_t block_ = 0;  // to be drawn next
  Tensor drawn_;             // the rest of the last one, absent or not empty
};

}  // namespace tandem::tasks
