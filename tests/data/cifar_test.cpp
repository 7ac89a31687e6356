#include "data/cifar.h"

#include <catch2/catch.hpp>

#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

// `count` records with labels counting up from `first`.
Bytes records(CifarKind kind, int count, int first) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    if (kind == CifarKind::cifar100) bytes.push_back(static_cast<std::uint8_t>(i % 20));
    bytes.push_back(static_cast<std::uint8_t>(first + i));
    const Bytes planes = random_bytes(3072, static_cast<std::uint32_t>(100 + first + i));
    bytes.insert(bytes.end(), planes.begin(), planes.end());
  }
  return bytes;
}

}  // namespace

TEST_CASE("CIFAR records become channels-last images", "[cifar]") {
  const CifarKind kind = GENERATE(CifarKind::cifar10, CifarKind::cifar100);
  const TempFolder folder;
  write_file(folder / "a.bin", records(kind, 3, 0));
  write_file(folder / "b.bin", records(kind, 2, 3));
  const auto set = read_cifar(kind, {folder / "a.bin", folder / "b.bin"}, {});
  REQUIRE(set->size() == 5);
  CHECK(set->info().classes == (kind == CifarKind::cifar10 ? 10 : 100));
  for (Index i = 0; i < 5; ++i) {
    const Sample sample = set->get(i);
    CHECK(sample.label == i);
    const auto pixels = sample.image.to_vector<std::uint8_t>();
    const Bytes planes = random_bytes(3072, static_cast<std::uint32_t>(100 + i));
    bool equal = sample.image.shape() == Shape{32, 32, 3};
    for (std::size_t p = 0; p < 1024; ++p) {
      for (std::size_t c = 0; c < 3; ++c) equal = equal && pixels[3 * p + c] == planes[1024 * c + p];
    }
    CHECK(equal);
  }
}

TEST_CASE("CIFAR files of a wrong size or with a wrong label are refused", "[cifar]") {
  const TempFolder folder;
  const fs::path path = folder / "bad.bin";
  Bytes bytes = records(CifarKind::cifar10, 2, 0);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3072}, bytes.size() - 1}) {
    write_file(path, Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
    CHECK_THROWS_WITH(read_cifar(CifarKind::cifar10, {path}, {}),
                      Contains("bad.bin") && Contains("multiple of 3073"));
  }
  bytes[3073] = 10;
  write_file(path, bytes);
  CHECK_THROWS_WITH(read_cifar(CifarKind::cifar10, {path}, {}), Contains("label 10 of record 1"));
  CHECK_THROWS_WITH(read_cifar(CifarKind::cifar100, {path}, {}), Contains("multiple of 3074"));
  CHECK_THROWS_WITH(read_cifar(CifarKind::cifar10, {folder / "none.bin"}, {}), Contains("none.bin"));
}

TEST_CASE("CIFAR folders are found, with their class names", "[cifar]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(find_cifar_files(CifarKind::cifar10, folder.path()),
                    Contains("data_batch_1.bin") && Contains("cifar-10-binary.tar.gz"));
  const fs::path inner = folder / "cifar-10-batches-bin";
  for (int i = 1; i <= 5; ++i) {
    write_file(inner / ("data_batch_" + std::to_string(i) + ".bin"), records(CifarKind::cifar10, 1, i));
  }
  CHECK_THROWS_WITH(find_cifar_files(CifarKind::cifar10, folder.path()), Contains("test_batch.bin"));
  write_file(inner / "test_batch.bin", records(CifarKind::cifar10, 1, 0));
  const CifarFiles files = find_cifar_files(CifarKind::cifar10, folder.path());
  CHECK(files.train.size() == 5);
  CHECK(files.class_names.at(9) == "truck");
  CHECK(read_cifar(CifarKind::cifar10, files.train, {})->size() == 5);

  std::string names;
  for (int i = 0; i < 10; ++i) names += "name" + std::to_string(i) + "\n";
  write_file(inner / "batches.meta.txt", Bytes(names.begin(), names.end()));
  CHECK(find_cifar_files(CifarKind::cifar10, folder.path()).class_names.at(3) == "name3");
}
