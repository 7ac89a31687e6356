// Images generated on demand instead of read from files.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tandem::datasets {

class ImageMaker {
 public:
  virtual ~ImageMaker() = default;
  virtual Index channels() const = 0;
  // The image of a BoxImage::id, u8 [H,W,channels()]. Deterministic and thread-safe.
  virtual Tensor image(std::int64_t id) const = 0;
};

}  // namespace tandem::datasets
