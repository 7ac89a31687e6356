#include "data/layout.h"

#include <algorithm>

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/shape.h"

namespace tandem::datasets {

namespace {

constexpr Index kColours = 4;    // at most: red, green, blue, alpha
constexpr Index kLeastSide = 8;  // at least, if the image is not square
constexpr Index kElongated = 4;  // largest ratio of the sides

Tensor transposed(const Tensor& images) {
  const Index count = images.size(0), channels = images.size(1), height = images.size(2),
              width = images.size(3);
  const Tensor result =
      Tensor::empty({count, height, width, channels}, {.dtype = images.dtype(), .kind = MemoryKind::data});
  const Index pixels = height * width, each = pixels * channels;
  backend_for(Device{}).shape().strided_copy(
      images, {.offset = 0, .strides = {each, width, 1, pixels}}, result,
      {.offset = 0, .strides = {each, width * channels, channels, 1}}, {count, height, width, channels});
  return result;
}

}  // namespace

Layout layout_from_name(const std::string& name) {
  if (name == "auto") return Layout::automatic;
  if (name == "nhwc") return Layout::nhwc;
  require(name == "nchw", "data.layout", "there is no layout \"{}\"; there are auto, nhwc and nchw", name);
  return Layout::nchw;
}

bool looks_channels_first(const Shape& shape) {
  if (shape.rank() != 4) return false;
  const Index channels = shape[1];
  const auto [shorter, longer] = std::minmax({shape[2], shape[3]});
  if (channels < 1 || channels > kColours || shape[3] <= kColours || shorter <= channels) return false;
  return shorter == longer || (shorter >= kLeastSide && longer <= kElongated * shorter);
}

Tensor channels_last(const Tensor& images, Layout layout, const std::string& source) {
  if (images.rank() != 4) return images;
  const Shape& shape = images.shape();
  require(layout != Layout::automatic || !looks_channels_first(shape), source,
          "images {} look like [N,C,H,W]; data.layout=nchw converts them, data.layout=nhwc takes them as "
          "{}x{} pixels of {} channels",
          to_string(shape), shape[1], shape[2], shape[3]);
  return layout == Layout::nchw && images.numel() > 0 ? transposed(images) : images;
}

}  // namespace tandem::datasets
