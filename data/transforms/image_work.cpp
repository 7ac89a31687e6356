#include "data/transforms/image_work.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace tandem::datasets {

void ImageWork::start(const Tensor& image, float unit, std::span<const float> mean) {
  source_ = {};
  mask_ = {};
  boxes_.clear();
  source_.height = image.shape()[0];
  source_.width = image.shape()[1];
  source_.channels = image.shape()[2];
  if (image.dtype() == DType::u8) {
    source_.bytes = image.data<std::uint8_t>();
  } else {
    source_.floats = image.data<float>();
  }
  view_ = ImageView::whole(source_.height, source_.width);
  unit_ = unit;
  mean_ = mean;
}

void ImageWork::add_mask(const Tensor& mask) { mask_ = {mask.data<std::uint8_t>(), mask.size(1)}; }

void ImageWork::add_objects(std::span<const BoxObject> objects) {
  boxes_.clear();
  for (const BoxObject& object : objects) boxes_.push_back({object.box, object.label});
}

void ImageWork::crop(const Rect& rect, float fill) { crop(rect, fill, false); }
void ImageWork::crop_on_mean(const Rect& rect) { crop(rect, 0, true); }

void ImageWork::crop(const Rect& rect, float fill, bool fill_mean) {
  const bool exceeds = rect.top < 0 || rect.left < 0 || rect.bottom() > height() || rect.right() > width();
  // A view has one fill, and pixels that a crop removed must not return.
  const auto regrows = [&] {
    const Rect& shown = view_.window;
    return shown.top > 0 || shown.left > 0 || shown.bottom() < view_.scaled_height ||
           shown.right() < view_.scaled_width;
  };
  const bool another = view_.fill != fill || view_.fill_mean != fill_mean;
  if (exceeds && ((view_.exceeds_source() && another) || regrows())) materialise();
  if (exceeds) {
    view_.fill = fill;
    view_.fill_mean = fill_mean;
  }
  view_.window = view_.to_scaled(rect);
  crop_boxes(rect);
}

void ImageWork::crop_boxes(const Rect& rect) {
  const auto left = static_cast<double>(rect.left), top = static_cast<double>(rect.top);
  const auto right = static_cast<double>(rect.right()), bottom = static_cast<double>(rect.bottom());
  std::erase_if(boxes_, [&](const LabelledBox& each) {
    const double x = (each.box.x1 + each.box.x2) / 2, y = (each.box.y1 + each.box.y2) / 2;
    return !(x > left && x < right && y > top && y < bottom);
  });
  for (auto& [box, label] : boxes_)
    box = {std::max(box.x1, left) - left, std::max(box.y1, top) - top, std::min(box.x2, right) - left,
           std::min(box.y2, bottom) - top};
}

void ImageWork::mirror() {
  view_.mirrored = !view_.mirrored;
  const auto extent = static_cast<double>(width());
  for (auto& [box, label] : boxes_) box = {extent - box.x2, box.y1, extent - box.x1, box.y2};
}

void ImageWork::flip() {
  view_.flipped = !view_.flipped;
  const auto extent = static_cast<double>(height());
  for (auto& [box, label] : boxes_) box = {box.x1, extent - box.y2, box.x2, extent - box.y1};
}

void ImageWork::resize(Index height, Index width, bool antialias) {
  if (height == view_.window.height && width == view_.window.width) return;
  const double down = static_cast<double>(height) / static_cast<double>(this->height());
  const double across = static_cast<double>(width) / static_cast<double>(this->width());
  for (auto& [box, label] : boxes_) box = {box.x1 * across, box.y1 * down, box.x2 * across, box.y2 * down};
  if (!view_.resampled() && view_.fill_mean && view_.hole_count == 0 && resize_inside(height, width)) {
    view_.antialias = antialias;
    return;
  }
  if (view_.resampled() || view_.exceeds_source() || view_.hole_count > 0) materialise();
  const Rect shown = view_.window;
  view_.support = {view_.support.top + shown.top, view_.support.left + shown.left, shown.height, shown.width};
  view_.scaled_height = height;
  view_.scaled_width = width;
  view_.antialias = antialias;
  view_.window = {0, 0, height, width};
}

bool ImageWork::resize_inside(Index height, Index width) {
  const Rect shown = view_.window;
  const Index top = std::max<Index>(shown.top, 0), bottom = std::min(shown.bottom(), view_.scaled_height);
  const Index left = std::max<Index>(shown.left, 0), right = std::min(shown.right(), view_.scaled_width);
  if (top >= bottom || left >= right) return false;
  const auto brought = [](Index at, Index first, Index extent, Index to) {
    return static_cast<Index>(
        std::llround(static_cast<double>((at - first) * to) / static_cast<double>(extent)));
  };
  const Index to_top = brought(top, shown.top, shown.height, height),
              to_bottom = brought(bottom, shown.top, shown.height, height),
              to_left = brought(left, shown.left, shown.width, width),
              to_right = brought(right, shown.left, shown.width, width);
  if (to_top == to_bottom || to_left == to_right) return false;
  view_.support = {view_.support.top + top, view_.support.left + left, bottom - top, right - left};
  view_.scaled_height = to_bottom - to_top;
  view_.scaled_width = to_right - to_left;
  view_.window = {-to_top, -to_left, height, width};
  return true;
}

void ImageWork::cut_hole(const Rect& rect) {
  // Clipped to the visible part, so that later padding does not enlarge it.
  const Index top = std::max<Index>(rect.top, 0), bottom = std::min(rect.bottom(), height());
  const Index left = std::max<Index>(rect.left, 0), right = std::min(rect.right(), width());
  if (top >= bottom || left >= right) return;
  if (view_.hole_count == kMaxHoles) materialise();
  view_.holes[view_.hole_count++] = view_.to_scaled({top, left, bottom - top, right - left});
}

void ImageWork::materialise() {
  Affine identity(source_.channels);
  std::ranges::copy(mean_, identity.hole.begin());
  next_.resize(static_cast<std::size_t>(height() * width() * channels()));
  render(source_, view_, identity, next_.data(), scratch_);
  std::swap(current_, next_);
  if (mask_.indices) {
    next_mask_.resize(static_cast<std::size_t>(height() * width()));
    render_mask(mask_, view_, next_mask_.data());
    std::swap(current_mask_, next_mask_);
    mask_ = {current_mask_.data(), width()};
  }
  source_.bytes = nullptr;
  source_.floats = current_.data();
  source_.height = height();
  source_.width = width();
  view_ = ImageView::whole(source_.height, source_.width);
}

std::span<float> ImageWork::pixels() {
  materialise();
  return {current_.data(), static_cast<std::size_t>(height() * width() * channels())};
}

void ImageWork::finish_boxes(std::span<BoxRow> out) const {
  ensure(boxes_.size() <= out.size(), "data", "{} boxes for {} rows", boxes_.size(), out.size());
  const auto across = static_cast<double>(width()), down = static_cast<double>(height());
  std::size_t count = 0;
  for (const auto& [box, label] : boxes_) {
    const BoxRow row{static_cast<float>(box.x1 / across), static_cast<float>(box.y1 / down),
                     static_cast<float>(box.x2 / across), static_cast<float>(box.y2 / down),
                     static_cast<float>(label)};
    // A sliver may round to zero size, which has no logarithm.
    if (row[2] > row[0] && row[3] > row[1]) out[count++] = row;
  }
  std::ranges::fill(out.subspan(count), BoxRow{});
}

void ImageWork::finish(const Affine& affine, float* out) { render(source_, view_, affine, out, scratch_); }

}  // namespace tandem::datasets
