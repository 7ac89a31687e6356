// tandem export: files read back, and errors. tests/golden/export_test.cpp checks them against other
// programs.
#include <map>

#include "core/tensor.h"
#include "data/npy.h"
#include "files/safetensors.h"
#include "tests/data/files.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using tandem::DType;
using tandem::Tensor;
using tandem::safetensors::File;

namespace {

constexpr const char* kResNet = R"({
  "name": "small", "run_dir": "run", "epochs": 1, "data": {"name": "digits", "batch_size": 64},
  "model": {"name": "resnet20", "width": 4}, "optimizer": {"name": "sgd", "lr": 0.01}})";

// Windows of several sizes, which are slices and means in ONNX.
constexpr const char* kUneven = R"({
  "name": "uneven", "run_dir": "uneven", "epochs": 1, "data": {"name": "digits", "batch_size": 64},
  "model": {"layers": [{"type": "conv2d", "out_channels": 4, "kernel": 3, "padding": "same"},
                       {"type": "adaptive_avg_pool2d", "name": "pool", "size": 3}, {"type": "flatten"},
                       {"type": "linear", "out_features": 10}]},
  "optimizer": {"name": "sgd", "lr": 0.01}})";

void train(const TemporaryDirectory& directory, const char* config) {
  directory.write("config.json", config);
  must(tandem_in(directory, {"train", "config.json", "--limit-steps=3"}));
}

Outcome exported(const TemporaryDirectory& directory, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "export");
  return tandem_in(directory, arguments);
}

void check_same(const Tensor& a, const Tensor& b) {
  CHECK(a.shape() == b.shape());
  REQUIRE(a.dtype() == b.dtype());
  CHECK((a.dtype() == DType::i64 ? a.to_vector<std::int64_t>() == b.to_vector<std::int64_t>()
                                 : a.to_vector<float>() == b.to_vector<float>()));
}

}  // namespace

TEST_CASE("export writes the weights of a run under torchvision's names", "[program]") {
  const TemporaryDirectory directory;
  train(directory, kResNet);
  const File saved((newest_checkpoint(directory.path() / "run") / "weights.safetensors").string());

  const Outcome outcome = exported(directory, {"run", "--format", "safetensors", "--weights", "last"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("run/exports/last.safetensors") && Contains("parameters"));
  const File file(directory.path() / "run/exports/last.safetensors");
  CHECK(file.metadata() == tandem::safetensors::Metadata{{"format", "pt"}});
  REQUIRE(file.entries().size() == saved.entries().size());
  for (const auto& entry : file.entries()) {
    INFO(entry.name);
    check_same(file.read(entry), saved.read(entry.name));
  }
  CHECK(file.read("conv1.weight").shape() == tandem::Shape{4, 1, 3, 3});
  CHECK(file.read("layer3.2.bn2.running_var").dtype() == DType::f32);
  CHECK(file.find("bn1.num_batches_tracked")->dtype == "I64");
  CHECK(file.read("bn1.num_batches_tracked").to_vector<std::int64_t>() == std::vector<std::int64_t>{3});

  REQUIRE(exported(directory, {"run", "--format=npz", "--weights=run/checkpoints/step-3/weights.safetensors",
                               "--out=weights.npz"})
              .exit_code == 0);
  const auto arrays =
      tandem::datasets::read_npz(directory.path() / "weights.npz", [](const std::string&) { return true; });
  CHECK(arrays.size() == saved.entries().size());
  for (const auto& [name, array] : arrays) {
    INFO(name);
    check_same(array, saved.read(name));
  }
  const std::string first = read_text(directory.path() / "weights.npz");
  REQUIRE(exported(directory, {"run", "--format=npz", "--weights=step-3", "--out=weights.npz"}).exit_code ==
          0);
  CHECK(read_text(directory.path() / "weights.npz") == first);
}

// `eval` takes them, too: files of other programs say nothing of a run's data.
TEST_CASE("weights that no run saved are exported and predict with the data of the run", "[program]") {
  const TemporaryDirectory directory;
  train(directory, kResNet);
  const auto written = nlohmann::json::parse(
      must(exported(directory, {"run", "--format=safetensors", "--out=w.safetensors", "--json"})).out);
  CHECK(written["file"] == "w.safetensors");
  CHECK(written["bytes"] == std::filesystem::file_size(directory.path() / "w.safetensors"));
  must(exported(directory, {"run", "--format=npz", "--weights=best", "--out=own.npz"}));
  must(exported(directory, {"run", "--format=npz", "--weights=w.safetensors", "--out=given.npz"}));
  CHECK(read_text(directory.path() / "given.npz") == read_text(directory.path() / "own.npz"));
  must(exported(directory, {"run", "--format=onnx", "--weights=w.safetensors", "--out=given.onnx"}));
  must(tandem_in(directory, {"eval", "run", "--weights=w.safetensors"}));
  namespace npy = tandem::datasets::testing;
  const npy::Bytes file = npy::npy_bytes(npy::npy_header("|u1", false, "(8, 8)"), npy::Bytes(64, 7));
  directory.write("digit.npy", std::string(file.begin(), file.end()));
  CHECK(must(tandem_in(directory, {"predict", "run", "digit.npy", "--weights=w.safetensors"})).out ==
        must(tandem_in(directory, {"predict", "run", "digit.npy"})).out);
}

TEST_CASE("export writes the network of a run as ONNX", "[program]") {
  const TemporaryDirectory directory;
  train(directory, kResNet);
  const Outcome outcome = exported(directory, {"run", "--format", "onnx"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::string file = read_text(directory.path() / "run/exports/best.onnx");
  for (const char* word :
       {"images", "logits", "layer3.2.conv2.weight", "layer3.2.bn2/Relu", "BatchNormalization", "tandem.mean",
        "tandem.class_names", R"(["0","1","2","3","4","5","6","7","8","9"])"})
    CHECK_THAT(file, Contains(word));
}

TEST_CASE("export refuses what it cannot do, and says why", "[program]") {
  const TemporaryDirectory directory;
  train(directory, kUneven);
  const auto refused = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = exported(directory, arguments);
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK_THAT(refused({"uneven", "--format=onx"}),
             Contains("safetensors, npz, onnx") && Contains("did you mean \"onnx\""));
  CHECK_THAT(refused({"uneven"}), Contains("--format"));
  CHECK_THAT(refused({"nowhere", "--format=npz"}), Contains("nowhere"));
  CHECK_THAT(refused({"uneven", "--format=npz", "--weights=step-7"}),
             Contains("step-7") && Contains("best, last, step-N"));
  CHECK(exported(directory, {"uneven", "--format=npz"}).exit_code == 0);
  CHECK(exported(directory, {"uneven", "--format=onnx"}).exit_code == 0);
  CHECK_THAT(read_text(directory.path() / "uneven/exports/best.onnx"), Contains("pool/ReduceMean"));
}
