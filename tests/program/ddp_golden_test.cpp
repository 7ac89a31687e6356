// Ten steps of two ranks against PyTorch's DistributedDataParallel over gloo, in FP32 and under autocast.
// tests/golden/ddp.py makes the values, the weights that both start from, and the images.
#include <cmath>

#include "files/safetensors.h"
#include "tests/program/ranks.h"
#include "tests/support/tolerance.h"

using namespace tandem::testing;
using tandem::DType;
using tandem::safetensors::File;
using tandem::test::source_path;
using tandem::test::tolerance_of;

namespace {

constexpr std::size_t kSteps = 10;

// A quarter of what other networks are allowed (metadata of the file: PyTorch itself is up to 2.6e-3 away
// from FP64): a run that shows batch norm whole batches must not pass, whose losses are 7.8e-3 away, norms
// 9.7e-3 and weights 6e-3.
constexpr double kAutocast = tolerance_of(DType::bf16).relative / 4;

// Autocast as PyTorch has it: weight gradients are rounded, too.
constexpr const char* kLikePyTorch = R"({"level": "O1", "dtype": "bf16", "wgrad": "lower"})";

std::vector<std::string> arguments(const std::string& run, const std::vector<std::string>& more) {
  return joined({"train", source_path("tests/golden/ddp.json"), "run_dir=" + run,
                 "data.path=" + source_path("tests/golden/ddp_data.npz"),
                 "init_from=" + source_path("tests/golden/ddp_initial.safetensors")},
                more);
}

void train_alone(const TemporaryDirectory& directory, const std::string& run,
                 const std::vector<std::string>& more) {
  must(tandem_in(directory, arguments(run, more)));
}

void train_as_two(const TemporaryDirectory& directory, const std::string& run,
                  const std::vector<std::string>& more) {
  must(run_ranks(directory, 2, arguments(run, more)));
}

// How far a run is from the golden one of that type: the farthest loss and norm, relatively, and all weights.
struct Distance {
  double losses = 0.0, norms = 0.0, weights = 0.0;
};

std::vector<double> logged(const std::filesystem::path& run, const char* key) {
  std::vector<double> values;
  for (const auto& event : events_of(run, "step")) values.push_back(event[key]);
  REQUIRE(values.size() == kSteps);
  return values;
}

double farthest(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double far = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i)
    far = std::max(far, std::abs(got[i] - expected[i]) / expected[i]);
  return far;
}

// Weights and running statistics, as the last checkpoint has them, beside the golden ones. Every tensor of
// the file is among them.
struct Weights {
  std::vector<double> got, expected;
};

Weights weights_of(const std::filesystem::path& run, const File& golden, const std::string& type) {
  const File saved((newest_checkpoint(run) / "weights.safetensors").string());
  const std::string prefix = "weights " + type + "/";
  Weights weights;
  for (const auto& entry : golden.entries()) {
    if (!entry.name.starts_with(prefix)) continue;
    const auto got = saved.read(entry.name.substr(prefix.size())).to_vector<double>();
    const auto expected = golden.read(entry).to_vector<double>();
    INFO(entry.name);
    REQUIRE(got.size() == expected.size());
    weights.got.insert(weights.got.end(), got.begin(), got.end());
    weights.expected.insert(weights.expected.end(), expected.begin(), expected.end());
  }
  REQUIRE(weights.expected.size() == 3022 + 2 * (12 + 24));
  return weights;
}

Distance distance(const std::filesystem::path& run, const std::string& type) {
  const File golden(source_path("tests/golden/ddp.safetensors"));
  const auto values = [&](const std::string& what) {
    return golden.read(what + " " + type).to_vector<double>();
  };
  Distance result{.losses = farthest(logged(run, "loss"), values("losses")),
                  .norms = farthest(logged(run, "grad_norm"), values("gradient norms"))};
  if (type == "f64") return result;  // its weights are not stored
  const Weights weights = weights_of(run, golden, type);
  result.weights = tandem::test::normalised_error(weights.got, weights.expected);
  return result;
}

void check_fp32(const std::filesystem::path& run) {
  const auto tolerance = tolerance_of(DType::f32);
  for (const char* type : {"f32", "f64"}) {
    CAPTURE(type);
    const Distance far = distance(run, type);
    CHECK(far.losses < tolerance.relative);
    CHECK(far.norms < tolerance.relative);
  }
  const Weights weights = weights_of(run, File(source_path("tests/golden/ddp.safetensors")), "f32");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < weights.got.size(); ++i)
    wrong += tandem::test::close(weights.got[i], weights.expected[i], tolerance) ? 0 : 1;
  CHECK(wrong == 0);
}

void check_autocast(const std::filesystem::path& run) {
  const Distance far = distance(run, "bf16");
  CHECK(far.losses < kAutocast);
  CHECK(far.norms < kAutocast);
  CHECK(far.weights < kAutocast);
  // And it was no FP32.
  CHECK(distance(run, "f32").losses > 10 * tolerance_of(DType::f32).relative);
}

// `train` into a run of that name, with the overrides.
template <class Train>
void check_golden(const TemporaryDirectory& directory, const Train& train) {
  train(directory, "fp32", {});
  check_fp32(directory / "fp32");
  for (const std::string precision : {kLikePyTorch, "amp_bf16"}) {
    CAPTURE(precision);
    const std::string run = precision == "amp_bf16" ? "preset" : "autocast";
    train(directory, run, {"precision=" + precision});
    check_autocast(directory / run);
  }
  // The gradients of two shards have one sum only.
  train(directory, "reproducible", {"parallel.reduction=reproducible", "parallel.shards=2"});
  CHECK(same_end(directory / "reproducible", directory / "fp32"));
}

}  // namespace

TEST_CASE("a batch in two shards is trained on as two processes of PyTorch's do", "[program]") {
  const TemporaryDirectory directory;
  check_golden(directory,
               [](const TemporaryDirectory& into, const std::string& run, std::vector<std::string> more) {
                 more.emplace_back("parallel.shards=2");
                 train_alone(into, run, more);
               });
  // A batch that is not divided is another run: batch norm sees the whole of it.
  train_alone(directory, "whole", {});
  const Distance whole = distance(directory / "whole", "f32");
  CHECK(whole.losses > kAutocast);
  CHECK(whole.norms > kAutocast);
  CHECK(whole.weights > kAutocast);
}

TEST_CASE("two ranks train as two processes of PyTorch's do", "[program]") {
  if (const std::string why = why_no_ranks(); !why.empty()) {
    WARN("skipped: " << why);
    return;
  }
  const TemporaryDirectory directory;
  check_golden(directory, train_as_two);
  // As many processes as shards, or one: the sums are the same.
  train_alone(directory, "alone", {"parallel.shards=2"});
  CHECK(same_end(directory / "alone", directory / "fp32"));
}
