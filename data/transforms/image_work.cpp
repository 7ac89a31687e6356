#include "data/transforms/image_work.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::datasets {

void ImageWork::start(const Tensor& image, float unit, std::span<const float> mean) {
  source_ = {};
  mask_ = {};
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

void ImageWork::crop(const Rect& rect, float fill) {
  const bool exceeds = rect.top < 0 || rect.left < 0 || rect.bottom() > height() || rect.right() > width();
  // One fill per view; what an earlier crop cut away is not to come back.
  const auto regrows = [&] {
    const Rect& shown = view_.window;
    return shown.top > 0 || shown.left > 0 || shown.bottom() < view_.scaled_height ||
           shown.right() < view_.scaled_width;
  };
  if (exceeds && ((view_.exceeds_source() && view_.fill != fill) || regrows())) materialise();
  if (exceeds) view_.fill = fill;
  view_.window = view_.to_scaled(rect);
}

void ImageWork::mirror() { view_.mirrored = !view_.mirrored; }
void ImageWork::flip() { view_.flipped = !view_.flipped; }

void ImageWork::resize(Index height, Index width) {
  if (height == view_.window.height && width == view_.window.width) return;
  if (view_.resampled() || view_.exceeds_source() || view_.hole_count > 0) materialise();
  const Rect shown = view_.window;
  view_.support = {view_.support.top + shown.top, view_.support.left + shown.left, shown.height, shown.width};
  view_.scaled_height = height;
  view_.scaled_width = width;
  view_.window = {0, 0, height, width};
}

void ImageWork::cut_hole(const Rect& rect) {
  // Clipped to what is shown, so that later padding does not reveal more of it.
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

void ImageWork::finish(const Affine& affine, float* out) { render(source_, view_, affine, out, scratch_); }

}  // namespace tandem::datasets
