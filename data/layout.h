// Channel order of image arrays, which NumPy files do not record.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace tandem::datasets {

enum class Layout : std::uint8_t {
  automatic,  // [N,H,W,C]; an error if the shape looks like [N,C,H,W]
  nhwc,       // [N,H,W,C], unchecked
  nchw,       // converted to [N,H,W,C]
};

// "auto", "nhwc", "nchw"; throws UserError for another name.
Layout layout_from_name(const std::string& name);

// True if [N,C,H,W] is the likelier reading of a shape: axis 1 has 1 to 4 channels; axes 2 and 3 are equal,
// or both at least 8 and within a factor of 4; and the last is no channel count.
bool looks_channels_first(const Shape& shape);

// Images of four axes as [N,H,W,C]; other arrays have no channel axis and stay unchanged. Throws UserError in
// the name of `source` when the automatic layout looks wrong.
Tensor channels_last(const Tensor& images, Layout layout, const std::string& source);

}  // namespace tandem::datasets
