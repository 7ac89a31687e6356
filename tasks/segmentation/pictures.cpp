#include "tasks/segmentation/pictures.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "data/dataset.h"

namespace tandem::tasks {

using datasets::Colour;

namespace {

constexpr Index kGap = 4;           // between pictures, white
constexpr Index kEnlargedTo = 128;  // of a picture's longer side, at least where it is smaller
constexpr std::uint8_t kWhite = 255;

const TensorOptions kBytes{.dtype = DType::u8, .kind = MemoryKind::data};

// The palette of the PASCAL VOC development kit: the bits of a class are dealt to red, green and blue in
// turn, the lowest ones to the highest bits of the colours.
std::array<Colour, 256> new_palette() {
  std::array<Colour, 256> palette{};
  for (unsigned i = 0; i < 256; ++i) {
    for (unsigned bit = 0; bit < 8; ++bit)
      palette[i][bit % 3] =
          static_cast<std::uint8_t>(palette[i][bit % 3] | ((i >> bit & 1U) << (7 - bit / 3)));
  }
  return palette;
}

void require_picture(const Tensor& image, const Tensor& mask) {
  ensure(image.rank() == 3 && (image.size(2) == 1 || image.size(2) == 3) &&
             image.shape().without(2) == mask.shape(),
         "picture", "image {} and mask {}", to_string(image.shape()), to_string(mask.shape()));
}

Tensor in_colours(const Tensor& image) {
  if (image.size(2) == 3) return image;
  const Tensor result = Tensor::empty(image.shape().with(2, 3), kBytes);
  const std::uint8_t* from = image.data<std::uint8_t>();
  std::uint8_t* to = result.data<std::uint8_t>();
  for (Index i = 0; i < image.numel(); ++i, to += 3) std::fill_n(to, 3, from[i]);
  return result;
}

// Each pixel becomes a square of `factor`², from the pixel (top, left) of the sheet on.
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

Tensor coloured(const Tensor& mask) {
  const Tensor result = Tensor::empty(mask.shape().inserted(2, 3), kBytes);
  const std::uint8_t* from = mask.data<std::uint8_t>();
  std::uint8_t* to = result.data<std::uint8_t>();
  for (Index i = 0; i < mask.numel(); ++i, to += 3) std::ranges::copy(class_colours()[from[i]], to);
  return result;
}

Tensor overlay(const Tensor& image, const Tensor& mask) {
  require_picture(image, mask);
  const Tensor base = in_colours(image);
  const Tensor result = Tensor::empty(base.shape(), kBytes);
  const std::uint8_t *from = base.data<std::uint8_t>(), *label = mask.data<std::uint8_t>();
  std::uint8_t* to = result.data<std::uint8_t>();
  for (Index i = 0; i < base.numel(); ++i) {
    const Colour& colour = class_colours()[label[i / 3]];
    to[i] = label[i / 3] == 0
                ? from[i]
                : static_cast<std::uint8_t>((from[i] + colour[static_cast<std::size_t>(i % 3)] + 1) / 2);
  }
  return result;
}

void ExampleSheet::add(const Tensor& image, const Tensor& truth, const Tensor& prediction) {
  if (full()) return;
  require_picture(image, truth);
  require_picture(image, prediction);
  rows_.push_back({in_colours(image), coloured(truth), coloured(prediction)});
}

std::string ExampleSheet::png() const {
  if (rows_.empty()) return "";
  const Shape& one = rows_[0][0].shape();
  const Index factor =
      std::max<Index>(1, (kEnlargedTo + std::max(one[0], one[1]) - 1) / std::max(one[0], one[1]));
  const Index height = one[0] * factor, width = one[1] * factor;
  const auto rows = static_cast<Index>(rows_.size()), columns = static_cast<Index>(rows_[0].size());
  const Tensor sheet =
      Tensor::empty({rows * (height + kGap) - kGap, columns * (width + kGap) - kGap, 3}, kBytes);
  std::fill_n(sheet.data<std::uint8_t>(), sheet.numel(), kWhite);
  for (Index row = 0; row < rows; ++row) {
    for (Index column = 0; column < columns; ++column)
      put(rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)], factor,
          row * (height + kGap), column * (width + kGap), sheet);
  }
  return datasets::png_of(sheet);
}

}  // namespace tandem::tasks
