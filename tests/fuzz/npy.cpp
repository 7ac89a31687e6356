// NumPy's arrays, and archives of them.
#include "data/npy.h"

#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

void run(Bytes input) {
  if (input.size() > 1 && input[0] == std::byte{'P'} && input[1] == std::byte{'K'}) {
    const std::string file = file_of(input);
    datasets::read_npz(file, [](const std::string&) { return true; });
    datasets::read_array_splits(file, {});
    return;
  }
  const Tensor array = datasets::read_npy(*datasets::open_memory(input, "input"));
  expect(array.bytes() <= 16 * input.size(), "the array is larger than its file explains");
}

}  // namespace

TANDEM_FUZZ_TARGET("npy", run)

}  // namespace tandem::fuzz
