// Safetensors: the reference implementation's file is read and written byte for byte; round trips; errors.
#include "files/safetensors.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::safetensors;

namespace {

const std::string kReference = tandem::test::source_path("tests/golden/reference.safetensors");

// A folder of its own that goes with the test.
struct Scratch {
  std::filesystem::path folder;
  Scratch()
      : folder(std::filesystem::temp_directory_path() / fmt::format("tandem_safetensors_{}", ::getpid())) {
    std::filesystem::create_directories(folder);
  }
  ~Scratch() { std::filesystem::remove_all(folder); }
  std::string path(const std::string& name) const { return (folder / name).string(); }
};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), 8);
  return bytes + header + std::string(data_bytes, '\1');
}

// The message for a file of these bytes; "" when it is accepted.
std::string refusal(const Scratch& scratch, const std::string& bytes) {
  const std::string path = scratch.path("candidate.safetensors");
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    const File file(path);
    for (const Entry& entry : file.entries()) file.read(entry);
    return "";
  } catch (const UserError& error) {
    const std::string message = error.what();
    CHECK(message.find("candidate.safetensors") != std::string::npos);
    return message;
  }
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

}  // namespace

TEST_CASE("a file of the reference implementation is read exactly") {
  const File file(kReference);
  CHECK(file.metadata() == Metadata{{"made by", "safetensors"}});
  CHECK(file.entries().size() == 11);
  const std::vector<double> ramp{-0.5, -0.25, 0, 0.25, 0.5, 0.75};
  const std::pair<const char*, DType> floating[] = {
      {"f64", DType::f64}, {"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}};
  for (const auto& [name, dtype] : floating) {
    const Tensor read = file.read(name);
    CHECK(read.dtype() == dtype);
    CHECK(read.shape() == Shape{2, 3});
    CHECK(read.to_vector<double>() == ramp);
  }
  CHECK(file.read("i64").to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-(std::int64_t{1} << 62), 0, std::int64_t{1} << 62});
  CHECK(file.read("i32").to_vector<std::int64_t>() == std::vector<std::int64_t>{-5, 7});
  CHECK(file.read("u8").to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(file.read("bool").dtype() == DType::boolean);
  CHECK(file.read("bool").to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 1});
  CHECK(file.read("scalar").shape() == Shape{});
  CHECK(file.read("scalar").item() == 2.5);
  CHECK(file.read("empty").shape() == Shape{0, 4});
  CHECK(file.read("name with spaces, ünïcode and \"quotes\"").item() == 1.0);
  CHECK_THROWS_WITH(file.read("scaler"), Catch::Contains("did you mean \"scalar\""));
}

TEST_CASE("files are written with the bytes of the reference implementation") {
  const Scratch scratch;
  const File reference(kReference);
  std::vector<NamedTensor> tensors;
  for (const Entry& entry : reference.entries())
    tensors.insert(tensors.begin(), {entry.name, reference.read(entry)});
  write(scratch.path("copy.safetensors"), tensors, reference.metadata());
  CHECK(bytes_of(scratch.path("copy.safetensors")) == bytes_of(kReference));
  // Tensors begin at a multiple of eight, after as few spaces as that takes.
  for (std::size_t length = 1; length <= 16; ++length) {
    write(scratch.path("padded.safetensors"), {{std::string(length, 'x'), Tensor::scalar(1.0)}});
    const std::string file = bytes_of(scratch.path("padded.safetensors"));
    const std::size_t end = file.size() - 4;
    CHECK(end % 8 == 0);
    CHECK(file.substr(8, end - 8).find_last_not_of(' ') + 8 + 8 >= end);
  }
  std::filesystem::remove(scratch.path("padded.safetensors"));
  // Nothing else is left in the folder, and a second write replaces the first.
  CHECK(std::distance(std::filesystem::directory_iterator(scratch.folder), {}) == 1);
  write(scratch.path("copy.safetensors"), {}, {});
  CHECK(File(scratch.path("copy.safetensors")).entries().empty());
}

TEST_CASE("tensors of every dtype survive a round trip") {
  const Scratch scratch;
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor whole = Tensor::empty({4, 3, 2}, {.dtype = dtype});
    auto* bytes = static_cast<unsigned char*>(whole.raw());
    for (std::size_t b = 0; b < whole.bytes(); ++b)
      bytes[b] = static_cast<unsigned char>(dtype == DType::boolean ? b % 2 : b * 37 + 11);
    tensors.emplace_back(fmt::format("whole/{}", name_of(dtype)), whole);
    tensors.emplace_back(fmt::format("rows/{}", name_of(dtype)),
                         whole.rows(1, 2));  // starts inside its storage
  }
  write(scratch.path("all.safetensors"), tensors, {{"a", "1"}, {"b", "2"}});
  const File file(scratch.path("all.safetensors"));
  CHECK(file.metadata().size() == 2);
  REQUIRE(file.entries().size() == tensors.size());
  for (const auto& [name, expected] : tensors) {
    const Tensor found = file.read(name);
    CHECK(found.dtype() == expected.dtype());
    CHECK(found.shape() == expected.shape());
    CHECK(std::memcmp(found.raw(), expected.raw(), expected.bytes()) == 0);
    CHECK(file.find(name)->offset % size_of(expected.dtype()) == 0);
  }
}

TEST_CASE("names that a file cannot hold are refused before anything is written") {
  const Scratch scratch;
  const std::string path = scratch.path("bad.safetensors");
  const Tensor one = Tensor::scalar(1.0);
  CHECK_THROWS_AS(write(path, {{"a", one}, {"a", one}}), UserError);
  CHECK_THROWS_AS(write(path, {{"", one}}), UserError);
  CHECK_THROWS_AS(write(path, {{"__metadata__", one}}), UserError);
  CHECK_THROWS_AS(write(path, {{std::string(5000, 'x'), one}}), UserError);
  CHECK_THROWS_AS(write(path, {{"\xff\xfe", one}}), UserError);
  CHECK_THROWS_AS(write(path, {{"a", Tensor{}}}), UserError);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_THROWS_AS(write(scratch.path("no/such/folder/x"), {{"a", one}}), Error);
}

TEST_CASE("malformed files are refused with the rule they break") {
  const Scratch scratch;
  const auto refused = [&](const std::string& bytes, const char* rule) {
    const std::string message = refusal(scratch, bytes);
    INFO(message);
    CHECK(message.find(rule) != std::string::npos);
  };
  const auto with = [](const std::string& members, std::size_t bytes) {
    return file_of(fmt::format("{{{}}}", members), bytes);
  };
  for (const char more : {1, 8})
    refused(std::string(1, static_cast<char>(2 + more)) + std::string(7, '\0') + "{}", "only 2 follow");
  const std::string a = R"("a":)" + tensor("F32", "[2]", "[0,8]");

  CHECK(refusal(scratch, with(a, 8)).empty());
  CHECK(refusal(scratch, file_of("{}   ", 0)).empty());
  CHECK(refusal(scratch, with(a + R"(,"e":)" + tensor("F32", "[0,5]", "[8,8]"), 8)).empty());
  CHECK(refusal(scratch, with(R"("s":)" + tensor("F64", "[]", "[0,8]"), 8)).empty());

  refused("", "at least 8");
  refused("1234567", "at least 8");
  refused(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8) + "{}", "at most 100000000");
  refused(std::string("\x10\0\0\0\0\0\0\0", 8) + "{}", "truncated");
  refused(file_of("", 0), "begin with");
  refused(file_of(" {}", 0), "begin with");
  refused(file_of("{", 0), "JSON");
  refused(file_of("{}x", 0), "JSON");
  refused(file_of("{\"\xff\":1}", 0), "JSON");
  refused(with(a, 9), "file has 9");
  refused(with(a, 7), "has 7");
  refused(with(a + "," + a, 8), "stands twice");
  refused(with(R"("a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "stands twice");
  refused(with(R"("__metadata__":{"k":"1","k":"2"})", 0), "stands twice");
  refused(with(R"("__metadata__":{"k":1})", 0), "__metadata__");
  refused(with(R"("__metadata__":[])", 0), "__metadata__");
  refused(with(R"("a":5)", 0), "needs dtype");
  refused(with(R"("a":{"dtype":"F32","shape":[2]})", 8), "needs dtype");
  refused(with(R"("a":)" + tensor("F33", "[2]", "[0,8]"), 8), "unknown dtype");
  refused(with(R"("a":)" + tensor("F32", "[3]", "[0,8]"), 8), "8 bytes by its offsets");
  refused(with(R"("a":)" + tensor("F32", "[-2]", "[0,8]"), 8), "non-negative");
  refused(with(R"("a":)" + tensor("F32", "[2.0]", "[0,8]"), 8), "non-negative");
  refused(with(R"("a":)" + tensor("F32", "[2]", "[8,0]"), 8), "before it begins");
  refused(with(R"("a":)" + tensor("F32", "[4294967296,4294967296]", "[0,0]"), 0), "overflows");
  refused(with(R"("a":)" + tensor("F32", "[4611686018427387904,4]", "[0,0]"), 0), "overflows");
  refused(with(R"("a":)" + tensor("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), "17 axes");
  refused(with(R"("a":)" + tensor("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), "9 axes");
  refused(with(R"("a":)" + tensor("I16", "[2]", "[0,4]"), 4), "no counterpart");
  refused(with(a + R"(,"b":)" + tensor("F32", "[1]", "[12,16]"), 16), "gap");
  refused(with(a + R"(,"b":)" + tensor("F32", "[2]", "[4,12]"), 12), "overlap");
  refused(with(R"("a":)" + tensor("F32", "[2]", "[4,12]"), 12), "gap");
  const std::string deep = std::string(100'000, '[') + "1" + std::string(100'000, ']');
  refused(with("\"a\":" + deep, 0), "nests deeper");
  refused(file_of(std::string("{}\0{", 4), 0), "NUL");
  std::string many = "0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  refused(with(R"("a":)" + tensor("F32", "[" + many + "]", "[0,4]"), 4), "more than 1024 items");
  // The extents are multiplied first, as the reference implementation does: no elements are no bytes.
  CHECK(refusal(scratch, with(R"("a":)" + tensor("F64", "[4611686018427387904,0]", "[0,0]"), 0)).empty());
  refused(with(R"("a":)" + tensor("F64", "[4611686018427387904,4,0]", "[0,0]"), 0), "overflows");
  CHECK_THROWS_AS(File(scratch.folder.string()), UserError);
  CHECK_THROWS_AS(File(scratch.path("absent")), UserError);
}

TEST_CASE("truncated files and flipped bits are noticed without a crash") {
  const Scratch scratch;
  const std::string whole = bytes_of(kReference);
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK_FALSE(refusal(scratch, whole.substr(0, length)).empty());
  // A flip in the header is refused or changes what the header says; it must never crash.
  for (std::size_t bit = 0; bit < whole.size() * 8; bit += 7) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    CHECK_NOTHROW(refusal(scratch, flipped));
  }
}

TEST_CASE("any byte stands for true in a file") {
  const Scratch scratch;
  const std::string path = scratch.path("flags.safetensors");
  std::ofstream(path, std::ios::binary)
      << file_of(fmt::format(R"({{"a":{}}})", tensor("BOOL", "[5]", "[0,5]")), 0)
      << std::string("\x80\0\1\2\xff", 5);
  const Tensor flags = File(path).read("a");
  const auto* bytes = static_cast<const std::uint8_t*>(flags.raw());
  CHECK(std::vector<std::uint8_t>(bytes, bytes + 5) == std::vector<std::uint8_t>{1, 0, 1, 1, 1});
}
