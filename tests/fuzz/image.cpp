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
}

}  // namespace

TANDEM_FUZZ_TARGET("image", run)

}  // namespace tandem::fuzz
