#include "data/npy.h"

#include <catch2/catch.hpp>

#include "data/limits.h"
#include "tests/data/files.h"

using namespace tandem;
using namespace tandem::datasets;
using namespace tandem::datasets::testing;
using Catch::Contains;

namespace {

Tensor parse(const Bytes& bytes) { return read_npy(*open_memory(as_bytes(bytes), "memory")); }
Tensor parse(const std::string& descr, const std::string& shape, const Bytes& data, bool fortran = false) {
  return parse(npy_bytes(npy_header(descr, fortran, shape), data));
}
Tensor parse_header(const std::string& header) { return parse(npy_bytes(header, {1, 2})); }

const auto kEverything = [](const std::string&) { return true; };

}  // namespace

TEST_CASE(".npy arrays of every supported type, order and version", "[npy]") {
  for (const int version : {1, 2, 3}) {
    const Tensor array = parse(npy_bytes(npy_header("|u1", false, "(2, 3)"), {1, 2, 3, 4, 5, 6}, version));
    CHECK(array.dtype() == DType::u8);
    CHECK(array.shape() == Shape{2, 3});
    CHECK(array.to_vector<int>() == std::vector<int>{1, 2, 3, 4, 5, 6});
  }
  CHECK(parse("|u1", "(2, 3)", {1, 4, 2, 5, 3, 6}, true).to_vector<int>() ==
        std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(parse("|u1", "(2, 2, 2)", {0, 4, 2, 6, 1, 5, 3, 7}, true).to_vector<int>() ==
        std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(parse("|b1", "(2,)", {0, 1}).dtype() == DType::u8);
  CHECK(parse("|i1", "(2,)", {0xff, 1}).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 1});
  CHECK(parse("<i2", "(1,)", {0xfe, 0xff}).to_vector<std::int64_t>() == std::vector<std::int64_t>{-2});
  CHECK(parse(">i2", "(1,)", {0xff, 0xfe}).to_vector<std::int64_t>() == std::vector<std::int64_t>{-2});
  CHECK(parse("<u2", "(1,)", {0xfe, 0xff}).to_vector<std::int64_t>() == std::vector<std::int64_t>{65534});
  CHECK(parse("<i4", "(1,)", {0, 0, 0, 0x80}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-2147483648LL});
  CHECK(parse(">u4", "(1,)", {0x80, 0, 0, 0}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{2147483648LL});
  CHECK(parse("<i8", "(1,)", Bytes(8, 0xff)).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1});
  CHECK(parse("<u8", "(1,)", {7, 0, 0, 0, 0, 0, 0, 0}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{7});
  CHECK(parse("<f4", "(1,)", {0, 0, 0xc0, 0x3f}).to_vector<float>() == std::vector<float>{1.5F});
  CHECK(parse(">f4", "(1,)", {0x3f, 0xc0, 0, 0}).to_vector<float>() == std::vector<float>{1.5F});
  CHECK(parse("<f8", "(1,)", {0, 0, 0, 0, 0, 0, 0x04, 0xc0}).to_vector<float>() == std::vector<float>{-2.5F});
  CHECK(parse("|u1", "()", {9}).rank() == 0);
  CHECK(parse("|u1", "(0, 7)", {}).shape() == Shape{0, 7});
}

TEST_CASE(".npy headers that are malformed, hostile or unsupported are refused", "[npy]") {
  CHECK_THROWS_WITH(parse("|O", "(1,)", Bytes(8)), Contains("object array") && Contains("[memory]"));
  CHECK_THROWS_WITH(parse("O8", "(1,)", Bytes(8)), Contains("object array"));
  CHECK_THROWS_WITH(parse("<f2", "(1,)", Bytes(2)), Contains("float32"));
  CHECK_THROWS_WITH(parse("<U4", "(1,)", Bytes(16)), Contains("expected booleans, integers or floats"));
  CHECK_THROWS_WITH(parse(std::string("<\0001", 3), "(1,)", Bytes(1)), Contains("has elements"));
  CHECK_THROWS_WITH(parse("<c8", "(1,)", Bytes(8)), Contains("expected booleans, integers or floats"));
  CHECK_THROWS_WITH(parse("<u8", "(1,)", Bytes(8, 0xff)), Contains("exceeds 63 bits"));
  CHECK_THROWS_WITH(parse(">u8", "(1,)", {0x80, 0, 0, 0, 0, 0, 0, 0}), Contains("9223372036854775808"));
  CHECK(parse(">u8", "(1,)", {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}).item() == 0x1p63);
  CHECK_THROWS_WITH(parse_header("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}"),
                    Contains("structured"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': 1, 'shape': (2,)}"),
                    Contains("fortran_order"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': (-2,)}"),
                    Contains("not a number"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': [2]}"),
                    Contains("expected '('"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False}"), Contains("lacks"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (2,)}"),
                    Contains("repeats"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'x': 1, 'fortran_order': False, 'shape': (2,)}"),
                    Contains("unknown key"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)} evil()"),
                    Contains("goes on"));
  CHECK_THROWS_WITH(parse_header("__import__('os')"), Contains("malformed"));
  CHECK_THROWS_WITH(
      parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
      Contains("implausible"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': (9999999, 9999999)}"),
                    Contains("more than"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}"),
                    Contains("8 axes"));
  CHECK(parse_header("{'descr': \"|u1\", 'fortran_order': False, 'shape': (2,)}").shape() == Shape{2});
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': (2)}"),
                    Contains("expected a tuple"));
  CHECK_THROWS_WITH(parse_header("{'descr': '|u1', 'fortran_order': False, 'shape': (02,)}"),
                    Contains("leading zero"));
  CHECK_THROWS_WITH(
      parse_header(std::string("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}\0x", 57)),
      Contains("goes on"));

  const Bytes good = npy_bytes(npy_header("|u1", false, "(3,)"), {1, 2, 3});
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_THROWS_AS(parse(cut), UserError);
  }
  Bytes longer = good;
  longer.push_back(0);
  CHECK_THROWS_WITH(parse(longer), Contains("oversized"));
  Bytes magic = good;
  magic[0] = 'X';
  CHECK_THROWS_WITH(parse(magic), Contains("magic"));
  Bytes version = good;
  version[6] = 4;
  CHECK_THROWS_WITH(parse(version), Contains("version 4"));
  version[6] = 1;
  version[7] = 1;
  CHECK_THROWS_WITH(parse(version), Contains("version 1.1"));
  CHECK_THROWS_WITH(
      parse(npy_bytes(npy_header("|u1", false, "(3,)") + std::string(kMaxNpyHeader, ' '), {1, 2, 3}, 2)),
      Contains("limit"));
}

TEST_CASE(".npz archives that are written are read back, and always have the same bytes", "[npy]") {
  const TempFolder folder;
  std::vector<NamedArray> arrays{{"a.weight", Tensor::from({1.5f, -2, 3, 4, 5, 6}, {2, 3})},
                                 {"b", Tensor::from(std::vector<std::int64_t>{-7}, Shape{})},
                                 {"c", Tensor::from(std::vector<std::uint8_t>{1, 2, 255}, {3})},
                                 {"empty", Tensor::zeros({0, 4})}};
  for (int i = 0; i < 300; ++i)  // several blocks
    arrays.push_back({"many_" + std::to_string(i), Tensor::full({17, 1}, i)});
  const std::string file = npz_file(arrays);
  CHECK(npz_file(arrays) == file);
  const fs::path path = folder / "arrays.npz";
  write_file(path, Bytes(file.begin(), file.end()));
  const auto read = read_npz(path, kEverything);
  REQUIRE(read.size() == arrays.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i].name == arrays[i].name);
    CHECK(read[i].array.shape() == arrays[i].array.shape());
    CHECK(read[i].array.dtype() == arrays[i].array.dtype());
    CHECK(read[i].array.to_vector<float>() == arrays[i].array.to_vector<float>());
  }
  CHECK_THROWS_WITH(npz_file({{"half", Tensor::zeros({2}, {.dtype = DType::f16})}}),
                    Contains("f32, i64 and u8") && Contains("f16[2]"));
}

TEST_CASE(".npz archives give the splits of a data set", "[npy]") {
  const TempFolder folder;
  const fs::path path = folder / "set.npz";
  const Bytes train =
      npy_bytes(npy_header("|u1", false, "(3, 2, 2)"), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Bytes test = npy_bytes(npy_header("|u1", false, "(1, 2, 2)"), {12, 13, 14, 15});
  const Bytes train_labels =
      npy_bytes(npy_header("<i4", false, "(3, 1)"), {0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0});
  const Bytes test_labels = npy_bytes(npy_header("|u1", false, "(1,)"), {2});
  write_zip(path, {{"x_train.npy", train},
                   {"test_images.npy", test},
                   {"y_train.npy", train_labels},
                   {"labels_test.npy", test_labels},
                   {"ignored.txt", {1}},
                   {"other.npy", {1}}});
  const ArraySplits splits = read_array_splits(path, {.name = "npy"});
  REQUIRE(splits.train);
  REQUIRE(splits.test);
  CHECK(!splits.validation);
  CHECK(splits.train->size() == 3);
  CHECK(splits.train->info().sample_shape == Shape{2, 2, 1});
  CHECK(splits.train->info().classes == 3);
  CHECK(splits.train->get(2).label == 2);
  CHECK(splits.test->get(0).image.to_vector<int>() == std::vector<int>{12, 13, 14, 15});
  CHECK(splits.train->info().statistics.mean.at(0) == Approx(5.5 / 255));
  CHECK(splits.test->info().statistics.mean == splits.train->info().statistics.mean);

  SECTION("labels of the test split beyond the training split's classes") {
    write_zip(path, {{"x_train.npy", train},
                     {"y_train.npy", train_labels},
                     {"x_test.npy", test},
                     {"y_test.npy", npy_bytes(npy_header("|u1", false, "(1,)"), {3})}});
    CHECK_THROWS_WITH(read_array_splits(path, {}), Contains("label 3") && Contains("3 classes"));
  }
  SECTION("missing and repeated parts") {
    write_zip(path, {{"x_train.npy", train}});
    CHECK_THROWS_WITH(read_array_splits(path, {}), Contains("no training images and labels"));
    write_zip(path, {{"x_train.npy", train}, {"y_train.npy", train_labels}, {"x_test.npy", test}});
    CHECK_THROWS_WITH(read_array_splits(path, {}), Contains("x_test") && Contains("labels"));
    write_zip(path, {{"x_train.npy", train}, {"images.npy", train}, {"y_train.npy", train_labels}});
    CHECK_THROWS_WITH(read_array_splits(path, {}), Contains("x_train and images"));
    write_zip(path, {{"x_train.npy", train}, {"y_train.npy", test_labels}});
    CHECK_THROWS_WITH(read_array_splits(path, {}), Contains("3 images, but 1 labels"));
  }
  SECTION("damage") {
    const Bytes whole = read_bytes(path);
    for (std::size_t size = 0; size < whole.size(); size += 11) {
      write_file(path, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
      CHECK_THROWS_AS(read_array_splits(path, {}), UserError);
    }
    write_file(path, Bytes{'n', 'o', ' ', 'z', 'i', 'p'});
    CHECK_THROWS_WITH(read_array_splits(path, {}), Contains("set.npz"));
  }
  SECTION("an archive that would grow without measure") {
    const std::size_t huge = kFreeArchiveBytes + (std::size_t{32} << 20);
    write_zip(path, {{"images.npy", npy_bytes(npy_header("|u1", false, "(1, " + std::to_string(huge) + ")"),
                                              Bytes(huge))}});
    REQUIRE(kFreeArchiveBytes + fs::file_size(path) * kMaxArchiveRatio < huge);
    CHECK_THROWS_WITH(read_npz(path, kEverything), Contains("at most"));
  }
}

TEST_CASE("a folder of .npy files is a data set of features too", "[npy]") {
  const TempFolder folder;
  write_file(folder / "x.npy", npy_bytes(npy_header("<f4", false, "(2, 2)"),
                                         {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x80, 0xbf, 0, 0, 0, 0}));
  write_file(folder / "y.npy",
             npy_bytes(npy_header("<i8", false, "(2,)"), {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const ArraySplits splits = read_array_splits(folder.path(), {});
  CHECK(!splits.test);
  CHECK(splits.train->info().dtype == DType::f32);
  CHECK(splits.train->info().sample_shape == Shape{2});
  CHECK(splits.train->get(0).image.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(splits.train->get(0).label == 1);

  write_file(folder / "y.npy", npy_bytes(npy_header("<f4", false, "(2,)"), Bytes(8)));
  CHECK_THROWS_WITH(read_array_splits(folder.path(), {}), Contains("not integers"));
  write_file(folder / "x.npy", npy_bytes(npy_header("<i4", false, "(2, 1)"), Bytes(8)));
  CHECK_THROWS_WITH(read_array_splits(folder.path(), {}), Contains("neither u8 nor floating-point"));
  CHECK_THROWS_WITH(read_array_splits(folder / "none", {}), Contains("no such file or folder"));
}
