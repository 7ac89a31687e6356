#include "data/npy.h"

#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "data/limits.h"
#include "data/loader.h"
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
                    Contains("f32, i64 or u8") && Contains("f16[2]"));
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
  SECTION("splits of different types") {
    write_zip(path, {{"x_train.npy", train},
                     {"y_train.npy", train_labels},
                     {"x_test.npy", npy_bytes(npy_header("<i2", false, "(1, 2, 2, 1)"), Bytes(8))},
                     {"y_test.npy", test_labels}});
    CHECK_THROWS_WITH(read_array_splits(path, {}),
                      Contains("x_test] has samples of i64, the training split of u8"));
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

TEST_CASE("integers of more than 8 bits are indices, which stay as they are", "[npy]") {
  const TempFolder folder;
  write_file(folder / "x.npy", npy_bytes(npy_header("<i2", false, "(2, 2, 2)"),
                                         {1, 0, 2, 0, 3, 0, 0xff, 0xff, 0, 1, 6, 0, 7, 0, 8, 0}));
  write_file(folder / "y.npy", npy_bytes(npy_header("|u1", false, "(2,)"), {1, 0}));
  const ArraySplits splits = read_array_splits(folder.path(), {.name = "npy"});
  CHECK(splits.train->info().dtype == DType::i64);
  CHECK(splits.train->info().sample_shape == Shape{2, 2});
  Loader loader(splits.train, Pipeline(splits.train->info()), {.batch_size = 2});
  const auto batch = loader.next();
  REQUIRE(batch);
  CHECK((*batch)["image"].dtype() == DType::i64);
  CHECK((*batch)["image"].shape() == Shape{2, 2, 2});
  CHECK((*batch)["image"].to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2, 3, -1, 256, 6, 7, 8});
  CHECK((*batch)["label"].to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  const auto pipeline_with = [&](const char* transform) {
    const TransformSpec spec{transform, {}};
    return Pipeline(splits.train->info(), std::span(&spec, 1));
  };
  CHECK_THROWS_WITH(pipeline_with("normalise"), Contains("needs numbers; the samples of npy are indices"));
  CHECK_THROWS_WITH(pipeline_with("horizontal_flip"), Contains("needs images"));
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
  CHECK_THROWS_WITH(read_array_splits(folder / "none", {}), Contains("no such file or folder"));
}

TEST_CASE("files that are no archive, or an empty one, are told apart", "[npy]") {
  const TempFolder folder;
  const auto error_of = [&](const Bytes& bytes) {
    write_file(folder / "set.npz", bytes);
    std::string error;
    try {
      read_array_splits(folder / "set.npz", {.name = "npy"});
    } catch (const UserError& found) {
      error = found.what();
    }
    return error;
  };
  Bytes empty_zip{'P', 'K', 5, 6};
  empty_zip.resize(22);
  CHECK_THAT(error_of(empty_zip), Contains("set.npz] is a .npz (zip) file without members"));
  CHECK_THAT(error_of({}), Contains("set.npz] is empty, expected a .npz (zip) file"));
  for (const Bytes& bytes : {Bytes(10, 'x'), Bytes(5000, 'x'), Bytes{'P', 'K', 5, 6}}) {
    CHECK_THAT(error_of(bytes), Contains("is not a .npz (zip) file: "));
    CHECK_THAT(error_of(bytes), !Contains("unknown error"));
  }
}

TEST_CASE("labels that make too many classes are refused, with the sample", "[npy]") {
  const TempFolder folder;
  const auto error_of = [&](std::int64_t label, Index classes) {
    Bytes labels(3 * sizeof label);
    std::memcpy(labels.data() + sizeof label, &label, sizeof label);  // of sample 1
    write_file(folder / "x_train.npy", npy_bytes(npy_header("|u1", false, "(3, 2)"), {0, 1, 2, 3, 4, 5}));
    write_file(folder / "y_train.npy", npy_bytes(npy_header("<i8", false, "(3,)"), labels));
    try {
      read_array_splits(folder.path(), {.name = "npy", .classes = classes});
    } catch (const UserError& found) {
      return std::string(found.what());
    }
    return std::string();
  };
  for (const std::int64_t label : {std::int64_t{1} << 62, std::int64_t{16'777'216}, INT64_MAX}) {
    INFO(label);
    CHECK_THAT(error_of(label, 0), Contains(fmt::format("label {} of sample 1 is out of range", label)) &&
                                       Contains("at most 16777216 classes"));
  }
  // There is no sample of most of them.
  CHECK_THAT(error_of(16'777'215, 0), Contains("label 16777215 of sample 1 makes 16777216 classes") &&
                                          Contains("(3)") && Contains("data.classes"));
  CHECK_THAT(error_of(1000, 0), Contains("more than there are samples"));
  CHECK(error_of(999, 0).empty());
  CHECK(error_of(16'777'215, 16'777'216).empty());
  CHECK_THAT(error_of(5, 16'777'217), Contains("16777217 classes, there are at most 16777216"));
}
