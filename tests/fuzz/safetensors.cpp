// safetensors: accepted input is written and read again unchanged.
#include "files/safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

using safetensors::File;

bool readable(const safetensors::Entry& entry) {
  static const std::string known[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL"};
  if (entry.name.empty() || entry.extents.size() > kMaxRank) return false;
  for (const std::string& name : known)
    if (name == entry.dtype) return true;
  return false;
}

std::vector<safetensors::NamedTensor> tensors_of(const File& file) {
  std::vector<safetensors::NamedTensor> tensors;
  for (const auto& entry : file.entries()) {
    if (readable(entry)) tensors.emplace_back(entry.name, file.read(entry));
  }
  return tensors;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(Bytes input) {
  const File file(file_of(input));
  const auto tensors = tensors_of(file);
  const std::string copy = folder() + "/copy.safetensors", again = folder() + "/again.safetensors";
  safetensors::write(copy, tensors, file.metadata());
  const File second(copy);
  expect(second.entries().size() == tensors.size() && second.metadata() == file.metadata(),
         "something was lost");
  for (const auto& [name, tensor] : tensors) {
    const Tensor read = second.read(name);
    expect(read.shape() == tensor.shape() && read.dtype() == tensor.dtype(), "a tensor's type changed");
    expect(read.bytes() == 0 || std::memcmp(read.raw(), tensor.raw(), read.bytes()) == 0, "bytes changed");
  }
  safetensors::write(again, tensors_of(second), second.metadata());
  expect(bytes_of(copy) == bytes_of(again), "written again, the file differs");
}

}  // namespace

TANDEM_FUZZ_TARGET("safetensors", run)

}  // namespace tandem::fuzz
