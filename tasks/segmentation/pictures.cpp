#include "tasks/segmentation/pictures.h"

#include <algorithm>

#include "core/error.h"
#include "data/dataset.h"

namespace tandem::tasks {

using datasets::Colour;

namespace {

const TensorOptions kBytes{.dtype = DType::u8, .kind = MemoryKind::data};

void require_picture(const Tensor& image, const Tensor& mask) {
  ensure(image.rank() == 3 && (image.size(2) == 1 || image.size(2) == 3) &&
             image.shape().without(2) == mask.shape(),
         "picture", "image {} and mask {}", to_string(image.shape()), to_string(mask.shape()));
}

}  // namespace

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
  sheet_.add({in_colours(image), coloured(truth), coloured(prediction)});
}

}  // namespace tandem::tasks
