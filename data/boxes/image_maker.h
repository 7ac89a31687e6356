// Images that are made up as they are asked for, instead of read from files.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace tandem::datasets {

class ImageMaker {
 public:
  virtual ~ImageMaker() = default;
  virtual Index channels() const = 0;
  // That of BoxImage::id, u8 [H,W,channels()]; the same whenever it is asked for, from several threads at
  // once.
  virtual Tensor image(std::int64_t id) const = 0;
};

}  // namespace tandem::datasets
