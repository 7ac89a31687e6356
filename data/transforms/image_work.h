// One image on its way through the transforms. Geometry is collected in an ImageView; pixels are computed
// when a transform needs them, when a step cannot be composed with what is pending, and at the end.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "data/boxes/box_corpus.h"
#include "data/transforms/render.h"

namespace tandem::datasets {

// A box of a batch: x1, y1, x2, y2 in shares of the image's sides, and the label; all 0: there is none.
using BoxRow = std::array<float, 5>;

struct LabelledBox {
  Corners box;
  Index label = 0;
};

class ImageWork {
 public:
  // Starts over with `image` (u8 or f32, [H,W,C]). `unit` is the value of full brightness, `mean` the mean
  // per channel, both in pixel units. The caller keeps image and mean alive; buffers of the previous image
  // are reused.
  void start(const Tensor& image, float unit, std::span<const float> mean);
  // The image's objects, whose boxes then go where it goes; likewise. A crop drops those whose centre it does
  // not show, and cuts the others to what it shows.
  void add_objects(std::span<const BoxObject> objects);
  // The image's mask, u8 of its extents, which then shares its geometry; after `start`, before anything else.
  void add_mask(const Tensor& mask);

  // Those that are left, in pixels of the current image.
  std::span<const LabelledBox> boxes() const { return boxes_; }

  Index height() const { return view_.window.height; }
  Index width() const { return view_.window.width; }
  Index channels() const { return source_.channels; }
  float unit() const { return unit_; }

  // `rect` is in pixels of the current image and may exceed it; what does shows `fill` (in pixel units).
  void crop(const Rect& rect, float fill = 0);
  // The same, with the data set's mean around the image.
  void crop_on_mean(const Rect& rect);
  void mirror();  // left to right
  void flip();    // top to bottom
  void resize(Index height, Index width, bool antialias = true);
  // Shows the data set's mean in `rect`; parts outside the image are ignored.
  void cut_hole(const Rect& rect);

  // The pixels so far, [height,width,channels] in pixel units, to be changed in place.
  std::span<float> pixels();

  // Writes the result, pixel·scale + offset.
  void finish(const Affine& affine, float* out);
  // Writes the mask's indices, height() × width().
  void finish_mask(std::uint8_t* out) const { render_mask(mask_, view_, out); }
  // Writes the boxes that are left and have an area in FP32, and rows of 0 behind them.
  void finish_boxes(std::span<BoxRow> out) const;

  const ImageView& view() const { return view_; }
  // Whether the result is a window of the 8-bit image that `start` was given.
  bool is_window() const { return source_.bytes && !view_.resampled() && view_.hole_count == 0; }

 private:
  void crop(const Rect& rect, float fill, bool fill_mean);
  void crop_boxes(const Rect& rect);
  // A resize of an image on a ground, without making the ground: the image's own border is brought to whole
  // pixels. False where none of it would be left.
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
