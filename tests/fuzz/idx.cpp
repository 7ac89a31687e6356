// IDX arrays, plain and gzip-compressed.
#include "data/idx.h"

#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

void run(Bytes input) {
  const bool compressed = input.size() > 1 && input[0] == std::byte{0x1f} && input[1] == std::byte{0x8b};
  const auto reader =
      compressed ? datasets::open_file(file_of(input)) : datasets::open_memory(input, "input");
  const Tensor array = datasets::read_idx(*reader);
  expect(compressed || array.bytes() <= 16 * input.size(), "the array is larger than its file explains");
}

}  // namespace

TANDEM_FUZZ_TARGET("idx", run)

}  // namespace tandem::fuzz
