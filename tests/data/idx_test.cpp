#include "data/idx.h"

#include <catch2/catch.hpp>

#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

Tensor parse(const Bytes& bytes) { return read_idx(*open_memory(as_bytes(bytes), "memory")); }

}  // namespace

TEST_CASE("IDX arrays of every type are read", "[idx]") {
  const Tensor bytes = parse(idx_bytes(0x08, {2, 3}, {0, 1, 2, 253, 254, 255}));
  CHECK(bytes.dtype() == DType::u8);
  CHECK(bytes.shape() == Shape{2, 3});
  CHECK(bytes.to_vector<int>() == std::vector<int>{0, 1, 2, 253, 254, 255});

  CHECK(parse(idx_bytes(0x09, {2}, {0x80, 0x7f})).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-128, 127});
  CHECK(parse(idx_bytes(0x0b, {2}, {0xff, 0xfe, 0x01, 0x02})).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-2, 258});
  CHECK(parse(idx_bytes(0x0c, {1}, {0x80, 0, 0, 1})).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-2147483647});
  CHECK(parse(idx_bytes(0x0d, {1}, {0x3f, 0xc0, 0, 0})).to_vector<float>() == std::vector<float>{1.5F});
  CHECK(parse(idx_bytes(0x0e, {1}, {0xc0, 0x04, 0, 0, 0, 0, 0, 0})).to_vector<float>() ==
        std::vector<float>{-2.5F});
  CHECK(parse(idx_bytes(0x08, {0, 4}, {})).numel() == 0);
}

TEST_CASE("IDX headers that lie are refused before anything is allocated", "[idx]") {
  const Bytes good = idx_bytes(0x08, {2, 3}, {0, 1, 2, 3, 4, 5});
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_THROWS_WITH(parse(cut), Contains("truncated") && Contains("[memory]"));
  }
  Bytes longer = good;
  longer.push_back(0);
  CHECK_THROWS_WITH(parse(longer), Contains("oversized") && Contains("6 bytes"));
  Bytes magic = good;
  magic[0] = 1;
  CHECK_THROWS_WITH(parse(magic), Contains("not an IDX file"));
  Bytes type = good;
  type[2] = 0x0a;
  CHECK_THROWS_WITH(parse(type), Contains("not an IDX file"));
  for (const std::uint8_t rank : {0, 9, 255}) {
    Bytes ranked = good;
    ranked[3] = rank;
    CHECK_THROWS_WITH(parse(ranked), Contains("rank"));
  }
  CHECK_THROWS_WITH(parse(idx_bytes(0x08, {0x7fffffff, 0x7fffffff, 2}, {})), Contains("more than"));
  CHECK_THROWS_WITH(parse(idx_bytes(0x08, {0xffffffff}, {1})),
                    Contains("truncated: the header promises 4294967295"));
}

TEST_CASE("IDX data sets from plain and compressed files", "[idx]") {
  const TempFolder folder;
  const Bytes pixels = random_bytes(5 * 4 * 3, 1);
  const Bytes images = idx_bytes(0x08, {5, 4, 3}, pixels);
  const Bytes labels = idx_bytes(0x08, {5}, {0, 1, 2, 1, 0});
  const bool compressed = GENERATE(false, true);
  const IdxPair files{folder / "i", folder / "l"};
  compressed ? write_gz(files.images, images) : write_file(files.images, images);
  compressed ? write_gz(files.labels, labels) : write_file(files.labels, labels);
  const auto set = read_idx_dataset(files, {});
  CHECK(set->size() == 5);
  CHECK(set->info().classes == 3);
  CHECK(set->info().sample_shape == Shape{4, 3, 1});
  for (Index i = 0; i < 5; ++i) {
    const Sample sample = set->get(i);
    CHECK(sample.label == (i < 3 ? i : 4 - i));
    CHECK(sample.image.shares_storage(set->images()));
    const auto values = sample.image.to_vector<std::uint8_t>();
    CHECK(std::equal(values.begin(), values.end(), pixels.begin() + i * 12));
  }
}

TEST_CASE("IDX data sets whose parts do not fit are refused by name", "[idx]") {
  const TempFolder folder;
  const IdxPair files{folder / "images-file", folder / "labels-file"};
  const Bytes images = idx_bytes(0x08, {2, 2, 2}, Bytes(8));
  write_file(files.images, images);

  write_file(files.labels, idx_bytes(0x08, {3}, {0, 0, 0}));
  CHECK_THROWS_WITH(read_idx_dataset(files, {}),
                    Contains("images-file") && Contains("2 images") && Contains("3 labels"));
  write_file(files.labels, idx_bytes(0x08, {2}, {0, 10}));
  CHECK_THROWS_WITH(read_idx_dataset(files, {.classes = 10}),
                    Contains("labels-file") && Contains("label 10 of sample 1"));
  write_file(files.labels, idx_bytes(0x09, {2}, {0, 0xff}));
  CHECK_THROWS_WITH(read_idx_dataset(files, {}), Contains("label -1 of sample 1 is negative"));
  write_file(files.labels, idx_bytes(0x08, {2, 1}, {0, 0}));
  CHECK_THROWS_WITH(read_idx_dataset(files, {}), Contains("labels of rank 1"));
  write_file(files.labels, idx_bytes(0x08, {2}, {0, 1}));
  write_file(files.images, idx_bytes(0x08, {2}, {0, 1}));
  CHECK_THROWS_WITH(read_idx_dataset(files, {}), Contains("images of rank 3 or 4"));
  write_file(files.images, idx_bytes(0x08, {0, 2, 2}, {}));
  write_file(files.labels, idx_bytes(0x08, {0}, {}));
  CHECK_THROWS_WITH(read_idx_dataset(files, {}), Contains("no samples"));
  fs::remove(files.images);
  CHECK_THROWS_WITH(read_idx_dataset(files, {}), Contains("images-file") && Contains("no such file"));
  fs::create_directory(files.images);
  CHECK_THROWS_WITH(read_idx_dataset(files, {}), Contains("not a regular file"));
}

TEST_CASE("damaged gzip files are refused", "[idx]") {
  const TempFolder folder;
  const fs::path path = folder / "images.gz";
  write_gz(path, idx_bytes(0x08, {20, 10, 10}, random_bytes(2000, 7)));
  const Bytes whole = read_bytes(path);
  REQUIRE(read_idx(*open_file(path)).numel() == 2000);
  for (std::size_t size = 3; size < whole.size(); size += 37) {
    write_file(path, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    CHECK_THROWS_AS(read_idx(*open_file(path)), UserError);
  }
  // The checksum stands in the last eight bytes.
  Bytes wrong = whole;
  wrong[wrong.size() - 6] ^= 1;
  write_file(path, wrong);
  CHECK_THROWS_WITH(read_idx(*open_file(path)), Contains("damaged") && Contains(path.string()));
  // A header that promises more than the file can hold, however well it is compressed.
  write_gz(path, idx_bytes(0x08, {1000000, 1000, 100}, {}));
  CHECK_THROWS_WITH(read_idx(*open_file(path)), Contains("at most"));
  // Zeros compress by more than any image: a little file is read, a large one is taken for a bomb.
  write_gz(path, idx_bytes(0x08, {1000, 1000}, Bytes(1'000'000)));
  CHECK(read_idx(*open_file(path)).numel() == 1'000'000);
  write_gz(path, idx_bytes(0x08, {1000, 100'000}, Bytes(100'000'000)));
  CHECK_THROWS_WITH(read_idx(*open_file(path)), Contains("at most") && Contains("unpack it"));
}

TEST_CASE("IDX files are found by the customary names", "[idx]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(find_idx_files(folder / "none", "; advice"),
                    Contains("no such folder") && Contains("advice"));
  CHECK_THROWS_WITH(find_idx_files(folder.path(), "; advice"),
                    Contains("train-images-idx3-ubyte") && Contains("advice"));
  for (const char* name :
       {"emnist-train-images-idx3-ubyte.gz", "train-labels.idx1-ubyte", "t10k-images-idx3-ubyte"}) {
    write_file(folder / name, {});
  }
  CHECK_THROWS_WITH(find_idx_files(folder.path(), ""), Contains("t10k-labels-idx1-ubyte"));
  write_file(folder / "test-labels-idx1-ubyte", {});
  const IdxFiles found = find_idx_files(folder.path(), "");
  CHECK(found.train.images.filename() == "emnist-train-images-idx3-ubyte.gz");
  CHECK(found.train.labels.filename() == "train-labels.idx1-ubyte");
  CHECK(found.test.labels.filename() == "test-labels-idx1-ubyte");
}
