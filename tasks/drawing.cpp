#include "tasks/drawing.h"

#include <algorithm>
#include <array>

namespace tandem::tasks {

using datasets::Colour;

namespace {

constexpr Index kGap = 4;           // between pictures, white
constexpr Index kEnlargedTo = 128;  // minimum length of the longer side of small pictures
constexpr std::uint8_t kWhite = 255;

const TensorOptions kPicture{.dtype = DType::u8, .kind = MemoryKind::data};

// The palette of the PASCAL VOC development kit: the bits of a class are distributed to red, green and blue
// in turn, from the lowest bit to the highest bits of the colours.
std::array<Colour, 256> new_palette() {
  std::array<Colour, 256> palette{};
  for (unsigned i = 0; i < 256; ++i) {
    for (unsigned bit = 0; bit < 8; ++bit)
      palette[i][bit % 3] =
          static_cast<std::uint8_t>(palette[i][bit % 3] | ((i >> bit & 1U) << (7 - bit / 3)));
  }
  return palette;
}

// Draws each pixel as a square of `factor`², from pixel (top, left) of the sheet.
void put(const Tensor& picture, Index factor, Index top, Index left, const Tensor& sheet) {
  const Index height = picture.size(0), width = picture.size(1), stride = sheet.size(1);
  for (Index y = 0; y < height * factor; ++y) {
    const std::uint8_t* from = picture.data<std::uint8_t>() + y / factor * width * 3;
    std::uint8_t* to = sheet.data<std::uint8_t>() + ((top + y) * stride + left) * 3;
    for (Index x = 0; x < width * factor; ++x, to += 3) std::copy_n(from + x / factor * 3, 3, to);
  }
}

}  // namespace

std::span<const Colour> class_colours() {
  static const std::array<Colour, 256> palette = new_palette();
  return palette;
}

Tensor in_colours(const Tensor& image) {
  if (image.size(2) == 3) return image;
  const Tensor result = Tensor::empty(image.shape().with(2, 3), kPicture);
  const std::uint8_t* from = image.data<std::uint8_t>();
  std::uint8_t* to = result.data<std::uint8_t>();
  for (Index i = 0; i < image.numel(); ++i, to += 3) std::fill_n(to, 3, from[i]);
  return result;
}

Tensor pixels_of(const Tensor& images, Index i, const datasets::Affine& affine, float unit) {
  const Tensor normalised = images.rows(i, 1).to(Device{});
  const Index channels = affine.channels();
  const Shape shape{images.size(1), images.size(2), channels};
  const Tensor image = Tensor::empty(shape, kPicture);
  const float* x = normalised.data<float>();
  std::uint8_t* to = image.data<std::uint8_t>();
  for (Index p = 0; p < shape.numel(); ++p) {
    const auto c = static_cast<std::size_t>(p % channels);
    const float pixel = (x[p] - affine.offset[c]) / affine.scale[c] * (255.0F / unit);
    to[p] = static_cast<std::uint8_t>(std::clamp(pixel + 0.5F, 0.0F, 255.0F));
  }
  return image;
}

void PictureSheet::add(std::vector<Tensor> row) {
  if (!full()) rows_.push_back(std::move(row));
}

std::string PictureSheet::png() const {
  if (rows_.empty()) return "";
  const Shape& one = rows_[0][0].shape();
  const Index factor =
      std::max<Index>(1, (kEnlargedTo + std::max(one[0], one[1]) - 1) / std::max(one[0], one[1]));
  const Index height = one[0] * factor, width = one[1] * factor;
  const auto rows = static_cast<Index>(rows_.size()), columns = static_cast<Index>(rows_[0].size());
  const Tensor sheet =
      Tensor::empty({rows * (height + kGap) - kGap, columns * (width + kGap) - kGap, 3}, kPicture);
  std::fill_n(sheet.data<std::uint8_t>(), sheet.numel(), kWhite);
  for (Index row = 0; row < rows; ++row) {
    for (Index column = 0; column < columns; ++column)
      put(rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)], factor,
          row * (height + kGap), column * (width + kGap), sheet);
  }
  return datasets::png_of(sheet);
}

}  // namespace tandem::tasks
