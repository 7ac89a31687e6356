// The place of the channels in arrays of images: NumPy files have both orders, and do not say which.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace tandem::datasets {

enum class Layout : std::uint8_t {
  automatic,  // [N,H,W,C]; what looks like [N,C,H,W] is refused
  nhwc,       // whatever it looks like
  nchw,       // is brought to [N,H,W,C]
};

// "auto", "nhwc", "nchw"; throws UserError for another name.
Layout layout_from_name(const std::string& name);

// Whether [N,C,H,W] is the likelier reading of a shape: 1 to 4 in second place, before the extents of an
// image (equal, or both at least 8 and within a factor of 4), the last of which is no count of colours.
bool looks_channels_first(const Shape& shape);

// Images of four axes as [N,H,W,C]; other arrays have no axis of channels and stay as they are. Throws
// UserError in the name of `source` where the layout is automatic and looks wrong.
Tensor channels_last(const Tensor& images, Layout layout, const std::string& source);

}  // namespace tandem::datasets
