#include "tasks/detection/pictures.h"

#include <algorithm>
#include <cmath>

#include "tasks/detection/bitmap_font.h"
#include "tasks/drawing.h"

namespace tandem::tasks {

namespace {

constexpr Index kPixelsPerLine = 400;  // of an image's longer side, per pixel of line width

struct PixelRect {
  Index top, left, bottom, right;
};

void fill(const Tensor& image, const PixelRect& rect, const datasets::Colour& colour) {
  const Index bottom = std::min(rect.bottom, image.size(0)), right = std::min(rect.right, image.size(1));
  for (Index y = std::max<Index>(rect.top, 0); y < bottom; ++y) {
    for (Index x = std::max<Index>(rect.left, 0); x < right; ++x)
      std::ranges::copy(colour, image.data<std::uint8_t>() + 3 * (y * image.size(1) + x));
  }
}

}  // namespace

Tensor with_boxes(const Tensor& image, std::span<const DrawnBox> boxes) {
  const Tensor picture = in_colours(image).clone();
  const Index height = picture.size(0), width = picture.size(1);
  const Index thick = std::max<Index>(1, (std::max(height, width) + kPixelsPerLine / 2) / kPixelsPerLine);
  const auto pixel = [](float share, Index extent) {
    return static_cast<Index>(std::lround(std::clamp(share, 0.0f, 1.0f) * static_cast<float>(extent)));
  };
  for (const DrawnBox& each : boxes) {
    const datasets::Colour& colour = class_colours()[static_cast<std::size_t>(each.label % 255)];
    const PixelRect box{pixel(each.box.y1, height), pixel(each.box.x1, width), pixel(each.box.y2, height),
                        pixel(each.box.x2, width)};
    fill(picture, {box.top, box.left, box.top + thick, box.right}, colour);
    fill(picture, {box.bottom - thick, box.left, box.bottom, box.right}, colour);
    fill(picture, {box.top, box.left, box.bottom, box.left + thick}, colour);
    fill(picture, {box.top, box.right - thick, box.bottom, box.right}, colour);
    if (each.caption.empty()) continue;
    const Index above = box.top - (kLetterHeight + 2) * thick;
    // Moves the caption into the picture.
    const Index room = width - (static_cast<Index>(each.caption.size()) * kLetterPitch + 1) * thick;
    write_caption(picture, above >= 0 ? above : box.top, std::clamp<Index>(room, 0, box.left), thick,
                  each.caption, colour);
  }
  return picture;
}

}  // namespace tandem::tasks
