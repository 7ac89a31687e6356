// Rendering of an ImageView: one read of the source, one write of the output.
//
// Resampling is bilinear with antialiasing: a triangle filter whose support grows with the reduction, centres
// aligned at half pixels, weights normalised at the borders, rows then columns, in f32 without intermediate
// rounding (as in Pillow's BILINEAR and PyTorch's interpolate with antialias). Without antialiasing the
// support is two pixels at any reduction (OpenCV's INTER_LINEAR).
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/transforms/image_view.h"

namespace tandem::datasets {

// out = pixel·scale[c] + offset[c]; holes are `hole[c]`.
struct Affine {
  explicit Affine(Index channels) : scale(channels, 1.0F), offset(channels, 0.0F), hole(channels, 0.0F) {}

  Index channels() const { return static_cast<Index>(scale.size()); }

  std::vector<float> scale, offset, hole;
};

// Dense [height,width,channels] pixels of one of two types.
struct PixelSource {
  const std::uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  Index height = 0, width = 0, channels = 0;
};

struct RenderScratch {
  std::vector<float> rows, column_weights, row_weights;
  std::vector<Index> column_first, row_first;
};

// Resizes `part` of an image u8 [H,W,C] to height × width pixels, in the image's units; resizes `out`.
void resize_part(const Tensor& image, const Rect& part, Index height, Index width, std::vector<float>& out);

// Dense [height,width] indices of a mask.
struct MaskSource {
  const std::uint8_t* indices = nullptr;
  Index width = 0;
};

// Writes the part of a mask that `view` shows, window.height × window.width indices: nearest neighbour (with
// centres at half pixels, aligned with the image), kIgnored outside. Holes do not apply to masks.
void render_mask(const MaskSource& source, const ImageView& view, std::uint8_t* out);

// Writes window.height × window.width × channels floats to `out`. Grows `scratch`, which the caller reuses.
void render(const PixelSource& source, const ImageView& view, const Affine& affine, float* out,
            RenderScratch& scratch);

}  // namespace tandem::datasets
