// Whole runs of the program on the device under test.
#include <cmath>
#include <csignal>
#include <utility>

#include "tests/program/support.h"
#include "tests/support/tensors.h"
#include "tests/support/tolerance.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

std::string device_name() { return test::test_device().type == DeviceType::cuda ? "cuda" : "cpu"; }

// A small convolutional network on the digits: batch norm, dropout, a short last batch.
std::vector<std::string> training(const std::string& run, const std::string& device,
                                  const std::vector<std::string>& settings) {
  return joined(
      {"train", "digits_mlp", "run_dir=" + run, "device=" + device, "allow_tf32=false", "epochs=2",
       "data.batch_size=220",
       R"(model={"layers": [{"type": "conv2d", "out_channels": 8, "kernel": 3, "stride": 2, "bias": false},
                           {"type": "batch_norm"}, {"type": "relu"}, {"type": "dropout", "p": 0.1},
                           {"type": "flatten"}, {"type": "linear", "out_features": 10}]})"},
      settings);
}

std::string state_of(const TemporaryDirectory& directory, const std::string& run) {
  return saved_tensors(directory.path() / run, "state");
}

}  // namespace

TEST_CASE("a device trains as the CPU does", "[device][program]") {
  const TemporaryDirectory directory;
  for (const std::string precision : {"fp32", "amp_bf16", "amp_fp16"}) {
    INFO(precision);
    for (const std::string& device : {std::string("cpu"), device_name()}) {
      const Outcome outcome = tandem_in(
          directory, training(precision + "-" + device + "-run", device, {"precision=" + precision}));
      INFO(outcome.err);
      REQUIRE(outcome.exit_code == 0);
    }
    const auto expected = events_of(directory / (precision + "-cpu-run"), "step");
    const auto got = events_of(directory / (precision + "-" + device_name() + "-run"), "step");
    REQUIRE(got.size() == expected.size());
    CHECK(got.size() == 14);
    const double tolerance = precision == "fp32" ? 1e-4 : 2e-2;
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO("step " << i + 1);
      const double loss = got[i]["loss"], other = expected[i]["loss"];
      CHECK(std::abs(loss - other) <= tolerance * std::abs(other));
      CHECK(got[i]["lr"] == expected[i]["lr"]);
      CHECK(got[i]["loss_scale"] == expected[i]["loss_scale"]);
      CHECK(got[i]["applied"] == expected[i]["applied"]);
    }
    const std::string device = device_name() == "cuda" ? "cuda:0" : "cpu";
    CHECK(events_of(directory / (precision + "-" + device_name() + "-run"), "start")[0]["device"] == device);
  }
}

TEST_CASE("steps that overflow are diagnosed and retried on the device", "[device][program]") {
  const TemporaryDirectory directory;
  for (const std::string on_skip : {"drop", "retry"}) {
    INFO(on_skip);
    const std::vector<std::string> settings = {"precision=amp_fp16",
                                               "precision.scaler.initial=16777216",
                                               "precision.on_skip=" + on_skip,
                                               "precision.diagnose=2",
                                               "optimizer.lr=0.01",
                                               "deterministic=true"};
    for (const std::string graphs : {"auto", "off"}) {
      std::vector<std::string> own = settings;
      own.push_back("cuda_graph=" + graphs);
      const Outcome outcome = tandem_in(directory, training(on_skip + graphs, device_name(), own));
      INFO(outcome.err);
      REQUIRE(outcome.exit_code == 0);
      const auto overflows = events_of(directory / (on_skip + graphs), "overflow");
      REQUIRE(overflows.size() == 2);
      for (const auto& overflow : overflows) {
        CHECK(overflow["cause"] == "scale");
        CHECK(overflow["where"] == "backward");
      }
      const auto end = end_of(directory / (on_skip + graphs));
      CHECK(end["skipped"].get<int>() >= 2);
      // A retried step is attempted again until it is applied.
      if (on_skip == "retry") CHECK(end["applied"] == 14);
      if (on_skip == "drop") CHECK(end["steps"] == 14);
    }
    CHECK(state_of(directory, on_skip + "auto") == state_of(directory, on_skip + "off"));
  }
}

TEST_CASE("an overflow is settled whenever its step arrives", "[device][program]") {
  const TemporaryDirectory directory;
  // How often the emulated GPU says of one step after the other that it has not arrived.
  const std::vector<std::string> arrivals = {"0", "1",   "2",   "3",     "4",    "5",
                                             "6", "0 3", "3 0", "5 5 0", "2 0 0"};
  for (const int accumulate : {1, 3}) {
    const int steps = accumulate == 1 ? 14 : 6;
    std::string expected;
    for (const std::string& denials : arrivals) {
      INFO(accumulate << " micro-batches, " << denials << " denials");
      const std::string run = "late" + std::to_string(accumulate) + denials;
      const Outcome outcome = launch(
          {.arguments = training(run, device_name(),
                                 {"precision=amp_fp16", "precision.scaler.initial=16777216",
                                  "optimizer.lr=0.01", "precision.on_skip=retry", "precision.diagnose=2",
                                  "deterministic=true", "accumulate=" + std::to_string(accumulate)}),
           .directory = directory.path().string(),
           .environment = {{"TANDEM_EMULATOR_DENIALS", denials}}});
      INFO(outcome.err);
      REQUIRE(outcome.exit_code == 0);
      CHECK(events_of(directory / run, "overflow").size() == 2);
      CHECK(events_of(directory / run, "step").size() == static_cast<std::size_t>(steps));
      CHECK(end_of(directory / run)["applied"] == steps);
      const std::string state = state_of(directory, run);
      if (expected.empty()) expected = state;
      CHECK((state == expected));
    }
  }
}

TEST_CASE("an interrupted run on the device goes on bit for bit", "[device][program]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> settings = {"precision=amp_fp16", "deterministic=true", "epochs=8",
                                             "eval.every_epochs=8"};
  REQUIRE(tandem_in(directory, training("whole", device_name(), settings)).exit_code == 0);
  const auto metrics = directory.path() / "cut" / "metrics.jsonl";
  bool sent = false;
  const Outcome cut = launch({.arguments = training("cut", device_name(), settings),
                              .directory = directory.path().string(),
                              .watch = [&] {
                                std::error_code error;
                                const auto size = std::filesystem::file_size(metrics, error);
                                if (error || size < 3000 || std::exchange(sent, true)) return 0;
                                return SIGINT;
                              }});
  INFO(cut.err);
  REQUIRE(cut.exit_code == 75);
  REQUIRE(tandem_in(directory, {"train", "--resume", "cut"}).exit_code == 0);
  CHECK(state_of(directory, "cut") == state_of(directory, "whole"));
  CHECK(end_of(directory / "cut")["metrics"] == end_of(directory / "whole")["metrics"]);
}

TEST_CASE("a model trained on the device is evaluated and measured there", "[device][program]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, training("run", device_name(), {"precision=amp_bf16"})).exit_code == 0);
  const Outcome evaluated = tandem_in(directory, {"eval", "run", "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.exit_code == 0);
  const auto own = end_of(directory / "run")["metrics"];
  const double accuracy = nlohmann::json::parse(evaluated.out)["metrics"]["accuracy"];
  // The run evaluates in its precision, `eval` in FP32.
  CHECK(std::abs(accuracy - own["accuracy"].get<double>()) < 0.02);
  const Outcome bench = tandem_in(
      directory, {"bench", "resnet20_synthetic", "--steps", "2", "--warmup", "1", "--json",
                  "data.batch_size=1", "device=" + device_name(),
                  R"(model={"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 10}]})"});
  INFO(bench.err);
  REQUIRE(bench.exit_code == 0);
  CHECK(nlohmann::json::parse(bench.out)["device"] == (device_name() == "cuda" ? "cuda:0" : "cpu"));
}
