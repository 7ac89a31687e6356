// Runs of ranks on emulated GPUs with the stand-in of NCCL: against the same ranks on CPUs, against one GPU,
// and errors.
#include "tests/program/ranks.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "parallel/nccl/open.h"
#include "tests/device/emulator.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

// Beside the emulator's library.
std::filesystem::path stand_in() {
  const char* const emulated = std::getenv("TANDEM_CUDA_LIBRARY");
  return emulated ? std::filesystem::path(emulated).parent_path() / "libtandem_nccl_stand_in.so" : "";
}

// What the emulated GPUs are asked for by a real one is another test's: it has one GPU.
bool gpus_cannot_be_joined() {
  std::string why = why_no_ranks();
  if (why.empty() && !test::emulator()) why = "ranks on GPUs are tested on emulated ones";
  if (why.empty() && !std::filesystem::exists(stand_in())) why = "there is no stand-in of NCCL";
  if (!why.empty()) WARN("skipped: " << why);
  return !why.empty();
}

Launch on_gpus(const TemporaryDirectory& directory, int ranks, std::vector<std::string> arguments) {
  Launch started =
      by_ranks(directory, ranks, joined(std::move(arguments), {"threads=1", "allow_tf32=false"}));
  started.environment["TANDEM_NCCL_LIBRARY"] = stand_in().string();
  started.environment["TANDEM_EMULATOR_DEVICES"] = "4";
  started.environment["TANDEM_EMULATOR_PROGRESS"] = "1";
  return started;
}

std::vector<std::string> into(const std::string& run, const std::string& device,
                              const std::vector<std::string>& arguments) {
  return joined(arguments, {"run_dir=" + run, "device=" + device, "-q"});
}

const std::vector<std::string> kRows{"train", "digits_mlp", "epochs=2", "data.train_size=230",
                                     "data.batch_size=40"};
const std::vector<std::string> kImages{
    "train",
    "digits_mlp",
    "epochs=2",
    "data.train_size=250",
    "data.batch_size=60",
    R"(model={"layers": [{"type": "conv2d", "out_channels": 8, "kernel": 3, "stride": 2, "bias": false},
                         {"type": "batch_norm"}, {"type": "relu"}, {"type": "dropout", "p": 0.1},
                         {"type": "flatten"}, {"type": "linear", "out_features": 10}]})"};

std::vector<std::string> language(const TemporaryDirectory& directory) {
  std::ofstream file(directory / "text.txt");
  const char* const who[] = {"a cat", "the dog", "one bird", "my fish"};
  const char* const does[] = {"eats", "sees", "likes", "finds", "hears"};
  for (int i = 0; i < 120; ++i)
    file << who[i % 4] << ' ' << does[i * i % 5] << ' ' << who[(i / 3 + 1) % 4] << '\n';
  return {"train",
          "debian_lstm",
          R"(data={"name": "text", "train": "text.txt", "validation": "text.txt", "test": "text.txt",
                   "batch_size": 6, "steps": 9})",
          R"(model={"name": "language_model", "embedding": 8, "units": 8, "num_layers": 1, "dropout": 0.2})",
          "precision=fp32",
          "optimizer.lr=1",
          "epochs=1"};
}

// Exit code 2 and one line of Tandem's own, to which mpirun adds its words.
std::string refused_by_ranks(const Outcome& outcome) {
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  std::string told;
  std::istringstream text(outcome.err);
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("tandem: ") && !line.starts_with("rank ")) continue;
    CHECK(told.empty());
    told = line;
  }
  return told;
}

// The losses of the steps are alike.
void check_alike(const std::filesystem::path& got, const std::filesystem::path& wanted, double tolerance) {
  const auto steps = events_of(got, "step"), others = events_of(wanted, "step");
  REQUIRE(steps.size() == others.size());
  REQUIRE(!steps.empty());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(steps[i]["loss"].get<double>() == Approx(others[i]["loss"].get<double>()).epsilon(tolerance));
    CHECK(steps[i]["applied"] == others[i]["applied"]);
    CHECK(steps[i]["loss_scale"] == others[i]["loss_scale"]);
  }
}

}  // namespace

TEST_CASE("ranks on GPUs train as ranks on CPUs do", "[device][program][ranks]") {
  if (gpus_cannot_be_joined()) return;
  const TemporaryDirectory directory;
  const auto check = [&](const std::string& name, int ranks, const std::vector<std::string>& arguments,
                         double tolerance) {
    INFO(name << " by " << ranks << " ranks");
    must(launch(on_gpus(directory, ranks, into(name + "-cpu", "cpu", arguments))));
    must(launch(on_gpus(directory, ranks, into(name + "-gpu", "cuda", arguments))));
    check_alike(directory / (name + "-gpu"), directory / (name + "-cpu"), tolerance);
  };
  SECTION("rows, a last batch that leaves ranks without samples") {
    check("rows", 3, joined(kRows, {"data.train_size=161"}), 1e-5);
  }
  SECTION("batch norm and dropout, in 16 bits, with averages") {
    check("images", 2, joined(kImages, {"precision=amp_bf16", "ema={}"}), 0.02);
  }
  SECTION("accumulation") { check("accumulated", 2, joined(kImages, {"accumulate=2"}), 1e-4); }
  SECTION("a state that is carried") { check("language", 2, language(directory), 1e-4); }
  SECTION("two networks") {
    check("gan", 2,
          {"train", "dcgan_fashion", "epochs=1", "data.train_size=32", "model.width=4", "data.batch_size=16",
           "data.test_size=32"},
          2e-3);
  }
}

TEST_CASE("ranks on GPUs add up to one GPU with the whole batch", "[device][program][ranks]") {
  if (gpus_cannot_be_joined()) return;
  const TemporaryDirectory directory;
  const auto arguments = joined(kRows, {"optimizer={\"name\": \"sgd\", \"lr\": 0.1}"});
  must(launch(on_gpus(directory, 0, into("one", "cuda", arguments))));
  for (const int ranks : {2, 4}) {
    const std::string run = "by" + std::to_string(ranks);
    must(launch(on_gpus(directory, ranks, into(run, "cuda", arguments))));
    check_alike(directory / run, directory / "one", 1e-6);
  }
}

TEST_CASE("recorded steps of ranks, resumes and retries leave the bits of others",
          "[device][program][ranks]") {
  if (gpus_cannot_be_joined()) return;
  const TemporaryDirectory directory;
  const auto arguments =
      joined(kImages, {"precision=amp_fp16", "precision.scaler.initial=16777216", "precision.on_skip=retry",
                       "precision.scaler.interval=4", "parallel.bucket_mb=0.001", "parallel.check_every=3"});
  must(launch(on_gpus(directory, 2, into("recorded", "cuda", arguments))));
  must(launch(on_gpus(directory, 2, into("ordinary", "cuda", joined(arguments, {"cuda_graph=off"})))));
  CHECK(same_end(directory / "recorded", directory / "ordinary"));
  CHECK(events_of(directory / "recorded", "overflow").size() >= 1);
  must(launch(on_gpus(directory, 2, joined(into("parts", "cuda", arguments), {"--limit-steps", "3"}))));
  must(launch(on_gpus(directory, 2, {"train", "parts", "-q"})));
  CHECK(same_end(directory / "parts", directory / "ordinary"));
}

TEST_CASE("messages and errors of ranks on GPUs", "[device][program][ranks]") {
  if (gpus_cannot_be_joined()) return;
  const TemporaryDirectory directory;
  Launch environment = on_gpus(directory, 2, {});
  environment.arguments = by_ranks(directory, 2, {"env"}).arguments;
  const Outcome env = must(launch(environment));
  CHECK_THAT(env.out, Contains("NCCL          " + parallel::nccl_version()) || Contains("NCCL          2."));
  CHECK_THAT(env.out, Contains("rank 1: ") && Contains(", cuda:1 (CUDA emulator"));
  const auto says = [&](int ranks, const std::vector<std::string>& arguments) {
    return refused_by_ranks(launch(on_gpus(directory, ranks, into("refused", "cuda", arguments))));
  };
  CHECK_THAT(says(2, joined(kRows, {"parallel.reduction=reproducible"})),
             Contains("parallel.reduction: reproducible is not supported on GPUs"));
  CHECK_THAT(says(2, joined(kRows, {"parallel.shards=4"})),
             Contains("parallel.shards: 4 shards by 2 ranks on GPUs"));
  CHECK_THAT(says(0, joined(kRows, {"parallel.shards=4"})),
             Contains("parallel.shards: 4 shards by 1 rank on GPUs"));
  Launch shared = on_gpus(directory, 2, into("shared", "cuda", kRows));
  shared.environment["TANDEM_EMULATOR_DEVICES"] = "1";
  CHECK_THAT(refused_by_ranks(launch(shared)),
             Contains("[nccl] each rank needs its own GPU: ranks 0 and 1 have the same one"));
  Launch without = on_gpus(directory, 2, into("without", "cuda", kRows));
  without.environment["TANDEM_NCCL_LIBRARY"] = "/nowhere/libnccl.so";
  const Outcome none = launch(without);
  INFO(none.err);
  CHECK(none.exit_code == 1);
  CHECK_THAT(none.err, Contains("ranks on GPUs need NCCL: /nowhere/libnccl.so cannot be opened"));
}

TEST_CASE("a rank on a GPU that hangs is named, and the run goes on", "[device][program][ranks]") {
  if (gpus_cannot_be_joined()) return;
  const TemporaryDirectory directory;
  const auto arguments = joined(kRows, {"parallel.deadline_s=3", "checkpoint.every_steps=2"});
  // In the sixth step, whose batch is no full one: four calls, of which the first is of the backward pass.
  // The other rank waits for it in MPI, with a sum on the device under way, or for the device.
  const std::string call = GENERATE("17", "20");
  INFO("call " << call);
  Launch hanging = on_gpus(directory, 2, into("run", "cuda", arguments));
  hanging.environment["TANDEM_NCCL_STAND_IN"] = "hang:1:" + call;
  const auto began = std::chrono::steady_clock::now();
  const Outcome hung = launch(hanging);
  INFO(hung.err);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(40));
  CHECK(hung.exit_code == 1);
  CHECK_THAT(hung.err, Contains("rank 1 (process ") && Contains("did not") &&
                           Contains("rank 0 waited for 3.") &&
                           Contains("resumes from its newest checkpoint with: mpirun -n 2 tandem train"));
  must(launch(on_gpus(directory, 2, {"train", "run", "-q"})));
  must(launch(on_gpus(directory, 2, into("undisturbed", "cuda", arguments))));
  CHECK(same_end(directory / "run", directory / "undisturbed"));
}

TEST_CASE("a benchmark by ranks on GPUs says what communication costs", "[device][program][ranks]") {
  if (gpus_cannot_be_joined()) return;
  const TemporaryDirectory directory;
  const Outcome outcome = must(launch(on_gpus(directory, 2,
                                              {"bench", "digits_mlp", "--steps", "3", "--warmup", "1",
                                               "--json", "device=cuda", "data.batch_size=16"})));
  const auto result = nlohmann::json::parse(outcome.out);
  CHECK(result["device"] == "cuda:0");
  CHECK(result["ranks"] == 2);
  CHECK(result["step_ms"]["together"].get<double>() > 0.0);
  CHECK(result["link"]["gb_per_s"].get<double>() > 0.0);
}
