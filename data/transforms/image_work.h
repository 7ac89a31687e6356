// One image on its way through the transforms. Geometry is collected in an ImageView; pixels are computed
// when a transform needs them, when a step cannot be composed with what is pending, and at the end.
#pragma once

#include <span>
#include <vector>

#include "data/transforms/render.h"

namespace tandem::datasets {

class ImageWork {
 public:
  // Starts over with `image` (u8 or f32, [H,W,C], kept alive by the caller). `unit` is the value of full
  // brightness, `mean` the mean per channel, both in pixel units. Buffers of the previous image are reused.
  void start(const Tensor& image, float unit, std::span<const float> mean);
  // The image's mask, u8 of its extents, which then shares its geometry; after `start`, before anything else.
  void add_mask(const Tensor& mask);

  Index height() const { return view_.window.height; }
  Index width() const { return view_.window.width; }
  Index channels() const { return source_.channels; }
  float unit() const { return unit_; }

  // `rect` is in pixels of the current image and may exceed it; what does shows `fill` (in pixel units).
  void crop(const Rect& rect, float fill = 0);
  void mirror();  // left to right
  void flip();    // top to bottom
  void resize(Index height, Index width);
  // Shows the data set's mean in `rect`; parts outside the image are ignored.
  void cut_hole(const Rect& rect);

  // The pixels so far, [height,width,channels] in pixel units, to be changed in place.
  std::span<float> pixels();

  // Writes the result, pixel·scale + offset.
  void finish(const Affine& affine, float* out);
  // Writes the mask's indices, height() × width().
  void finish_mask(std::uint8_t* out) const { render_mask(mask_, view_, out); }

  const ImageView& view() const { return view_; }
  // Whether the result is a window of the 8-bit image that `start` was given.
  bool is_window() const { return source_.bytes && !view_.resampled() && view_.hole_count == 0; }

 private:
  void materialise();

  PixelSource source_;
  MaskSource mask_;
  ImageView view_;
  float unit_ = 1;
  std::span<const float> mean_;
  std::vector<float> current_, next_;  // source_ points into current_ once pixels were computed
  std::vector<std::uint8_t> current_mask_, next_mask_;
  RenderScratch scratch_;
};

}  // namespace tandem::datasets
