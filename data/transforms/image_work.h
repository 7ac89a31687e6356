// ImageWork: one image on its way through the transforms. Geometry accumulates in an ImageView. Pixels are
// computed when a transform needs them, when a step does not compose with the pending ones, and at the end.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "data/boxes/box_corpus.h"
#include "data/transforms/render.h"

namespace tandem::datasets {

// A box of a batch: x1, y1, x2, y2 relative to the image's sides, and the label; all 0 for none.
using BoxRow = std::array<float, 5>;

struct LabelledBox {
  Corners box;
  Index label = 0;
};

class ImageWork {
 public:
  // Starts with a new `image` (u8 or f32, [H,W,C]). `unit` is the value of full brightness, `mean` the mean
  // per channel, both in pixel units. Keeps references to image and mean; reuses buffers.
  void start(const Tensor& image, float unit, std::span<const float> mean);
  // Adds the image's objects, whose boxes follow its geometry. A crop drops objects whose centre is outside
  // and clips the others. Keeps a reference.
  void add_objects(std::span<const BoxObject> objects);
  // Adds the image's mask, u8 of the same extents, which follows its geometry. Call it directly after
  // `start`.
  void add_mask(const Tensor& mask);

  // Remaining boxes, in pixels of the current image.
  std::span<const LabelledBox> boxes() const { return boxes_; }

  Index height() const { return view_.window.height; }
  Index width() const { return view_.window.width; }
  Index channels() const { return source_.channels; }
  float unit() const { return unit_; }

  // `rect`, in pixels of the current image, may exceed it; the excess is `fill` (in pixel units).
  void crop(const Rect& rect, float fill = 0);
  // The same, with the data set's mean as fill.
  void crop_on_mean(const Rect& rect);
  void mirror();  // left to right
  void flip();    // top to bottom
  void resize(Index height, Index width, bool antialias = true);
  // Fills `rect` with the data set's mean; parts outside the image are ignored.
  void cut_hole(const Rect& rect);

  // The current pixels, [height,width,channels] in pixel units, to be changed in place.
  std::span<float> pixels();

  // Writes pixel·scale + offset of the result.
  void finish(const Affine& affine, float* out);
  // Writes the mask's indices, height() × width().
  void finish_mask(std::uint8_t* out) const { render_mask(mask_, view_, out); }
  // Writes the remaining boxes of positive area in FP32, then rows of 0.
  void finish_boxes(std::span<BoxRow> out) const;

  const ImageView& view() const { return view_; }
  // True if the result is a window of the 8-bit image of `start`.
  bool is_window() const { return source_.bytes && !view_.resampled() && view_.hole_count == 0; }

 private:
  void crop(const Rect& rect, float fill, bool fill_mean);
  void crop_boxes(const Rect& rect);
  // Resizes an image on a canvas without computing the canvas: rounds the image's border to whole pixels.
  // Returns false if none of it would be left.
  bool resize_inside(Index height, Index width);
  void materialise();

  PixelSource source_;
  MaskSource mask_;
  ImageView view_;
  std::vector<LabelledBox> boxes_;
  float unit_ = 1;
  std::span<const float> mean_;
  std::vector<float> current_, next_;  // source_ points into current_ once pixels were computed
  std::vector<std::uint8_t> current_mask_, next_mask_;
  RenderScratch scratch_;
};

}  // namespace tandem::datasets
