// Thousands of damaged files: each reader succeeds or throws UserError.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "data/cifar.h"
#include "data/idx.h"
#include "data/image_file.h"
#include "data/npy.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;

namespace {

// One to four edits: a bit, a byte, a run of bytes, a cut, an insertion, a copy from elsewhere. Half of them
// hit the first 64 bytes, where headers are.
Bytes mutated(Bytes bytes, std::uint32_t which) {
  RandomStream random({.seed = 99, .call = which});
  const auto place = [&]() -> std::size_t {
    const std::size_t range = random.below(2) ? bytes.size() : std::min<std::size_t>(bytes.size(), 64);
    return range ? random.below(static_cast<std::uint32_t>(range)) : 0;
  };
  for (std::uint32_t edits = 1 + random.below(4); edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = place();
    const auto where = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = std::min<std::size_t>(1 + random.below(16), bytes.size() - at);
    switch (random.below(6)) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1U << random.below(8));
        break;
      case 1:
        bytes[at] = std::array<std::uint8_t, 5>{0, 1, 0x7f, 0x80, 0xff}[random.below(5)];
        break;
      case 2:
        for (std::size_t i = 0; i < length; ++i)
          bytes[at + i] = static_cast<std::uint8_t>(random.next_word());
        break;
      case 3:
        bytes.erase(where, where + static_cast<std::ptrdiff_t>(random.below(4) ? length : bytes.size() - at));
        break;
      case 4:
        bytes.insert(where, length, static_cast<std::uint8_t>(random.next_word()));
        break;
      default: {
        const std::size_t from = place();
        for (std::size_t i = 0; i < length && from + i < bytes.size(); ++i) bytes[at + i] = bytes[from + i];
      }
    }
  }
  return bytes;
}

void fuzz(const Bytes& valid, int count, const std::function<void(const Bytes&)>& read) {
  read(valid);
  int accepted = 0, refused = 0;
  for (int i = 0; i < count; ++i) {
    const Bytes bytes = mutated(valid, static_cast<std::uint32_t>(i));
    (succeeds([&] { read(bytes); }) ? accepted : refused)++;
  }
  CHECK(refused > count / 10);  // the mutations do reach the checks
  CHECK(accepted + refused == count);
}

}  // namespace

TEST_CASE("damaged IDX files", "[fuzz]") {
  const std::uint8_t type = GENERATE(0x08, 0x0c, 0x0e);
  const std::uint32_t element = type == 0x08 ? 1 : type == 0x0c ? 4 : 8;
  fuzz(idx_bytes(type, {4, 5, 6}, random_bytes(120 * element, 1)), 2000, [](const Bytes& bytes) {
    const Tensor array = read_idx(*open_memory(as_bytes(bytes), "fuzz"));
    require(array.bytes() <= 16 * bytes.size(), "fuzz", "an array larger than its file explains");
  });
}

TEST_CASE("damaged compressed IDX files", "[fuzz]") {
  const TempFolder folder;
  const fs::path path = folder / "fuzz.gz";
  write_gz(path, idx_bytes(0x08, {4, 5, 6}, random_bytes(120, 1)));
  fuzz(read_bytes(path), 500, [&](const Bytes& bytes) {
    write_file(path, bytes);
    read_idx(*open_file(path));
  });
}

TEST_CASE("damaged CIFAR files", "[fuzz]") {
  const CifarKind kind = GENERATE(CifarKind::cifar10, CifarKind::cifar100);
  Bytes valid = random_bytes(kind == CifarKind::cifar10 ? 3073 : 3074, 2);
  valid[0] = valid[1] = 5;
  fuzz(valid, 2000, [&](const Bytes& bytes) {
    read_cifar(kind, *open_memory(as_bytes(bytes), "fuzz"), bytes.size(), {});
  });
}

TEST_CASE("damaged .npy files", "[fuzz]") {
  const std::string descr = GENERATE("|u1", ">i4", "<f8");
  const bool fortran = GENERATE(false, true);
  const std::size_t element = descr == "|u1" ? 1 : descr == ">i4" ? 4 : 8;
  fuzz(npy_bytes(npy_header(descr, fortran, "(3, 4, 5)"), random_bytes(60 * element, 3)), 2000,
       [](const Bytes& bytes) { read_npy(*open_memory(as_bytes(bytes), "fuzz")); });
}

TEST_CASE("damaged .npz archives", "[fuzz]") {
  const TempFolder folder;
  const fs::path path = folder / "fuzz.npz";
  write_zip(path, {{"x.npy", npy_bytes(npy_header("|u1", false, "(4, 3)"), random_bytes(12, 4))},
                   {"y.npy", npy_bytes(npy_header("|u1", false, "(4,)"), {0, 1, 0, 1})}});
  fuzz(read_bytes(path), 1000, [&](const Bytes& bytes) {
    write_file(path, bytes);
    read_array_splits(path, {});
  });
}

TEST_CASE("damaged images", "[fuzz]") {
  const Bytes pixels = random_bytes(24 * 24 * 3, 5);
  const auto decode = [](const Bytes& bytes) { decode_image(as_bytes(bytes), "fuzz"); };
  SECTION("JPEG") { fuzz(jpeg_bytes({24, 24, 3, 60}, pixels), 2000, decode); }
  SECTION("progressive JPEG") { fuzz(jpeg_bytes({24, 24, 3, 60, true}, pixels), 2000, decode); }
  SECTION("PNG") { fuzz(png_bytes({.width = 24, .height = 24, .color_type = 2}, pixels), 2000, decode); }
  SECTION("interlaced PNG with alpha") {
    fuzz(png_bytes({.width = 24, .height = 18, .color_type = 6, .interlaced = true}, pixels), 2000, decode);
  }
}
