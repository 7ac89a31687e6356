// Integer features: from NumPy arrays through an embedding to every command.
#include <cmath>

#include "core/tensor.h"
#include "data/npy.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;
using tandem::Index;
using tandem::Tensor;

namespace {

constexpr Index kWords = 12, kLength = 6;

constexpr const char* kConfig = R"({
  "name": "words", "run_dir": "run", "epochs": 12,
  "data": {"name": "npy", "path": "words.npz", "batch_size": 32},
  "model": {"layers": [{"type": "embedding", "name": "table", "count": 12, "dim": 8},
                       {"type": "flatten"},
                       {"type": "linear", "out_features": 3}]},
  "optimizer": {"name": "adam", "lr": 0.02}})";

std::int64_t word(Index sample, Index place) {
  return (sample * 7 + place * 5 + sample * place / 3) % kWords;
}

// The class of a sequence is that of its second word.
std::vector<tandem::datasets::NamedArray> arrays(const std::string& split, Index first, Index count) {
  std::vector<std::int64_t> words, labels;
  for (Index i = first; i < first + count; ++i) {
    for (Index place = 0; place < kLength; ++place) words.push_back(word(i, place));
    labels.push_back(word(i, 1) % 3);
  }
  return {{"x_" + split, Tensor::from(words, {count, kLength})},
          {"y_" + split, Tensor::from(labels, {count})}};
}

void write_data(const TemporaryDirectory& directory) {
  auto all = arrays("train", 0, 400);
  for (auto& array : arrays("test", 400, 100)) all.push_back(array);
  directory.write("words.npz", tandem::datasets::npz_file(all));
}

// Sequences from `first` on, version 1.0 of the format.
std::string npy_of(Index first, Index count) {
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (" + std::to_string(count) + ", " +
                       std::to_string(kLength) + "), }";
  header += std::string(118 - header.size() - 1, ' ') + "\n";
  std::string file = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header;
  for (Index i = first; i < first + count; ++i) {
    for (Index place = 0; place < kLength; ++place) {
      const std::int64_t value = word(i, place);
      file.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  return file;
}

Outcome run(const TemporaryDirectory& directory, std::vector<std::string> arguments) {
  return must(tandem_in(directory, std::move(arguments)));
}

}  // namespace

TEST_CASE("indices in NumPy arrays train an embedding, and every command takes them", "[program]") {
  const TemporaryDirectory directory;
  write_data(directory);
  directory.write("words.json", kConfig);
  CHECK_THAT(run(directory, {"validate", "words.json"}).out, Contains("valid"));
  CHECK_THAT(run(directory, {"summary", "words.json"}).out, Contains("Embedding(12 × 8)"));
  CHECK_THAT(run(directory, {"train", "words.json", "--dry-run"}).out, Contains("[32,6]"));
  run(directory, {"train", "words.json", "-q"});
  const auto end = end_of(directory / "run");
  CHECK(end["metrics"]["accuracy"] > 0.97);

  const auto evaluated = json::parse(run(directory, {"eval", "run", "--json"}).out);
  CHECK(evaluated["metrics"]["accuracy"] == end["metrics"]["accuracy"]);

  directory.write("some.npy", npy_of(500, 20));
  const std::string lines = run(directory, {"predict", "run", "some.npy", "--json", "--logits"}).out;
  REQUIRE(line_count(lines) == 20);
  int right = 0;
  for (Index i = 0, at = 0; i < 20; ++i) {
    const auto next = static_cast<Index>(lines.find('\n', static_cast<std::size_t>(at)));
    const auto line =
        json::parse(lines.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(next - at)));
    right += line["predictions"][0]["class"] == word(500 + i, 1) % 3 ? 1 : 0;
    CHECK(std::isfinite(line["predictions"][0]["logit"].get<double>()));
    at = next + 1;
  }
  CHECK(right >= 19);

  run(directory, {"export", "run", "--format=onnx"});
  const std::string file = read_text(directory.path() / "run/exports/best.onnx");
  CHECK_THAT(file, Contains("indices") && Contains("table/Gather") && Contains(R"("layout":"indices")"));
  CHECK_THAT(run(directory, {"inspect", "run", "--casts"}).out, Contains("embedding"));
  run(directory, {"bench", "words.json", "--steps=2", "--warmup=1"});
  CHECK_THAT(run(directory, {"report", "run"}).err, !Contains("error"));
}

TEST_CASE("indices take part in mixed precision and in accumulation", "[program]") {
  const TemporaryDirectory directory;
  write_data(directory);
  directory.write("words.json", kConfig);
  run(directory, {"train", "words.json", "-q", "precision=amp_bf16", "data.workers=2", "accumulate=2",
                  "data.batch_size=16"});
  CHECK(end_of(directory / "run")["metrics"]["accuracy"] > 0.97);
}

TEST_CASE("transforms of images refuse indices", "[program]") {
  const TemporaryDirectory directory;
  write_data(directory);
  directory.write("words.json", kConfig);
  const auto refused = [&](const std::string& override) {
    const Outcome outcome = tandem_in(directory, {"train", "words.json", override});
    CHECK(outcome.exit_code == 2);
    CHECK(line_count(outcome.err.substr(outcome.err.find("tandem: "))) == 1);
    return outcome.err;
  };
  CHECK_THAT(refused(R"(model={"name": "mlp"})"), Contains("model") && Contains("i64"));
  CHECK_THAT(refused(R"(data.augment=["horizontal_flip"])"), Contains("needs images"));
  CHECK_THAT(refused("model.layers.0.count=10"), Contains("embedding") && Contains("[0,10)"));
}
