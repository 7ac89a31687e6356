// The binary files of CIFAR-10 (first byte even) and CIFAR-100.
#include "data/cifar.h"

#include "core/error.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

using datasets::CifarKind;

void run(Bytes input) {
  require(!input.empty(), "input", "is empty");
  const CifarKind kind = (static_cast<int>(input[0]) & 1) == 0 ? CifarKind::cifar10 : CifarKind::cifar100;
  const Bytes file = input.subspan(1);
  const auto set = datasets::read_cifar(kind, *datasets::open_memory(file, "input"), file.size(), {});
  const Index record = kind == CifarKind::cifar10 ? 3073 : 3074;
  expect(set->size() * record == static_cast<Index>(file.size()), "the records do not add up to the file");
}

}  // namespace

TANDEM_FUZZ_TARGET("cifar", run)

}  // namespace tandem::fuzz
