// Executes an ImageView: one read of the source, one write of the output.
//
// Resampling is bilinear with antialiasing: a triangle filter whose support grows with the reduction, centres
// aligned at half pixels, weights normalised at the borders, rows then columns, in f32 without intermediate
// rounding (the scheme of Pillow's BILINEAR and of PyTorch's interpolate with antialias). A view without
// antialiasing has a support of two pixels whatever the reduction (OpenCV's INTER_LINEAR).
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/transforms/image_view.h"

namespace tandem::datasets {

// out = pixel·scale[c] + offset[c]; holes show `hole[c]`.
struct Affine {
  explicit Affine(Index channels) : scale(channels, 1.0F), offset(channels, 0.0F), hole(channels, 0.0F) {}

  Index channels() const { return static_cast<Index>(scale.size()); }

  std::vector<float> scale, offset, hole;
};

// Dense [height,width,channels] pixels, of one of two types.
struct PixelSource {
  const std::uint8_t* bytes = nullptr;
  const float* floats = nullptr;
  Index height = 0, width = 0, channels = 0;
};

struct RenderScratch {
  std::vector<float> rows, column_weights, row_weights;
  std::vector<Index> column_first, row_first;
};

// Brings `part` of an image, u8 [H,W,C], to height × width pixels, in units of its own; `out` gets their
// size.
void resize_part(const Tensor& image, const Rect& part, Index height, Index width, std::vector<float>& out);

// A mask, dense [height,width] indices, that belongs to an image.
struct MaskSource {
  const std::uint8_t* indices = nullptr;
  Index width = 0;
};

// Writes what `view` shows of a mask, window.height × window.width indices: the nearest where it is
// resampled (with pixels' centres at halves, so that mask and image stay in register), kIgnored outside;
// holes are in the image only.
void render_mask(const MaskSource& source, const ImageView& view, std::uint8_t* out);

// Writes window.height × window.width × channels floats to `out`. `scratch` grows and is kept by the caller.
void render(const PixelSource& source, const ImageView& view, const Affine& affine, float* out,
            RenderScratch& scratch);

}  // namespace tandem::datasets
