// ImageView: the part of a source image that an output image shows. Crops, pads, flips and one resize compose
// without touching a pixel; `render` (data/transforms/render.h) then reads the source once and writes the
// normalised result once. A device that keeps 8-bit records needs only these numbers per sample.
#pragma once

#include <array>

#include "core/shape.h"

namespace tandem::datasets {

struct Rect {
  Index top = 0, left = 0, height = 0, width = 0;

  Index bottom() const { return top + height; }
  Index right() const { return left + width; }
  friend bool operator==(const Rect&, const Rect&) = default;
};

inline constexpr int kMaxHoles = 8;

// support (source pixels) → resampled to scaled_height × scaled_width → window of it → mirrored.
struct ImageView {
  Rect support;  // in the source; pixels outside are not read
  Index scaled_height = 0, scaled_width = 0;
  bool antialias = true;   // see render.h
  Rect window;             // in scaled pixels; beyond the scaled image it shows `fill`
  bool mirrored = false;   // left to right
  bool flipped = false;    // top to bottom
  float fill = 0;          // in pixel units, all channels
  bool fill_mean = false;  // fills with the data set's mean instead
  int hole_count = 0;
  std::array<Rect, kMaxHoles> holes;  // in scaled pixels; filled with the data set's mean

  static ImageView whole(Index height, Index width) {
    ImageView view;
    view.support = view.window = {0, 0, height, width};
    view.scaled_height = height;
    view.scaled_width = width;
    return view;
  }

  bool resampled() const { return scaled_height != support.height || scaled_width != support.width; }
  bool exceeds_source() const {
    return window.top < 0 || window.left < 0 || window.bottom() > scaled_height ||
           window.right() > scaled_width;
  }
  // Convert between pixels of the output and scaled pixels. Up to the offset, the mapping is its own inverse.
  Rect to_scaled(const Rect& rect) const;
  Rect to_output(const Rect& rect) const;
};

}  // namespace tandem::datasets
