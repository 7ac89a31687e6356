// JPEG and PNG.
#include "core/error.h"
#include "data/image_file.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

void run(Bytes input) {
  const Tensor colours = datasets::decode_image(input, "input", 3);
  const Tensor grey = datasets::decode_image(input, "input", 1);
  expect(colours.shape().with(2, 1) == grey.shape(), "the extents depend on the channels asked for");
  if (input[0] != std::byte{0x89}) return;  // a PNG
  const Tensor opacity = datasets::decode_image(input, "input", 4);
  expect(colours.shape().with(2, 4) == opacity.shape(), "the extents depend on the channels asked for");
  const std::string name = "input";
  const Tensor indices = datasets::decode_png_indices({input, name, datasets::kImageMemory});
  expect(colours.shape().without(2) == indices.shape(), "the extents of indices are not the image's");
}

}  // namespace

TANDEM_FUZZ_TARGET("image", run)

}  // namespace tandem::fuzz
