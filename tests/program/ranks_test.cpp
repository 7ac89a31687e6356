// Several processes that mpirun starts train one model: the same bits as one process, whatever their number.
#include "tests/program/ranks.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "files/safetensors.h"
#include "tests/support/uneven_data.h"

using namespace tandem::testing;
using nlohmann::json;

namespace {

std::string name_of(int ranks) { return "run" + std::to_string(ranks); }

const std::vector<std::string> kResNet{"train",
                                       "fashion_resnet8_table",
                                       "schedule.warmup_steps=2",
                                       "epochs=1",
                                       "data.train_size=200",
                                       "data.test_size=60",
                                       "data.batch_size=24",
                                       "precision=amp_bf16"};
const std::vector<std::string> kDetector{
    "train", "ssd_scenes", "epochs=1", "data.train_size=40", "data.test_size=12", "data.batch_size=16"};
const std::vector<std::string> kGan{
    "train",         "dcgan_fashion",      "epochs=1",         "data.train_size=64",
    "model.width=4", "data.batch_size=16", "data.test_size=64"};

// Trains with 0 to so many ranks, and expects the same end to the bit.
void check_same_bits(const std::vector<std::string>& arguments, const std::vector<int>& ranks, int shards) {
  const TemporaryDirectory directory;
  write_text(directory);
  const auto reproducible =
      joined(arguments, {"parallel.reduction=reproducible", "parallel.shards=" + std::to_string(shards)});
  for (const int count : ranks) must(run_ranks(directory, count, in(name_of(count), reproducible)));
  for (const int count : ranks) {
    INFO(count << " ranks against " << ranks.front());
    CHECK(same_end(directory / name_of(count), directory / name_of(ranks.front())));
  }
}

std::vector<double> weights_of(const std::filesystem::path& run) {
  const tandem::safetensors::File file((newest_checkpoint(run) / "weights.safetensors").string());
  std::vector<double> weights;
  for (const auto& entry : file.entries()) {
    const auto values = file.read(entry).to_vector<double>();
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

std::vector<double> losses_of(const std::filesystem::path& run) {
  std::vector<double> losses;
  for (const auto& event : events_of(run, "step")) losses.push_back(event["loss"]);
  return losses;
}

}  // namespace

TEST_CASE("any number of ranks trains with the bits of one process", "[program][ranks]") {
  if (cannot_be_started()) return;
  SECTION("a classifier of rows") { check_same_bits(kDigits, {0, 1, 2, 3, 4, 8}, 8); }
  SECTION("batch norm, in BF16") { check_same_bits(kResNet, {0, 2, 3}, 4); }
  SECTION("a detector") { check_same_bits(kDetector, {0, 2, 3}, 4); }
  SECTION("two networks") { check_same_bits(kGan, {0, 2, 3}, 4); }
  SECTION("a state that is carried") { check_same_bits(language(), {0, 2, 4}, 5); }
  SECTION("steps that overflow and are done again") {
    check_same_bits(joined(language(), {R"(precision={"level": "O1", "dtype": "fp16", "on_skip": "retry",
                      "scaler": {"initial": 16777216, "interval": 5, "ceiling": 1099511627776},
                      "max_skips": 100})"}),
                    {0, 2, 3}, 3);
  }
}

TEST_CASE("fast sums are those of the whole batch but for rounding", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto arguments =
      joined(kDigits, {"optimizer={\"name\": \"sgd\", \"lr\": 0.1}", "--limit-steps", "5"});
  must(run_ranks(directory, 0, in("whole", arguments)));
  const std::vector<double> whole = losses_of(directory / "whole");
  REQUIRE(whole.size() == 5);
  for (const int ranks : {2, 3, 4}) {
    must(run_ranks(directory, ranks, in(name_of(ranks), arguments)));
    const std::vector<double> losses = losses_of(directory / name_of(ranks));
    REQUIRE(losses.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(losses[i] == Approx(whole[i]).epsilon(1e-6));
    const tandem::safetensors::File divided(
        (newest_checkpoint(directory / name_of(ranks)) / "weights.safetensors").string());
    const tandem::safetensors::File undivided(
        (newest_checkpoint(directory / "whole") / "weights.safetensors").string());
    for (const auto& entry : undivided.entries()) {
      const auto wanted = undivided.read(entry).to_vector<double>();
      double difference = 0.0, norm = 0.0;
      std::size_t i = 0;
      for (const auto& other : divided.entries())
        if (other.name == entry.name)
          for (const double value : divided.read(other).to_vector<double>()) {
            difference += (value - wanted[i]) * (value - wanted[i]);
            norm += wanted[i] * wanted[i];
            ++i;
          }
      CHECK(i == wanted.size());
      CHECK(std::sqrt(difference) <= 1e-6 * std::sqrt(norm) + 1e-12);
    }
  }
}

// The same in one process, and of every loss: tests/train/parts_test.cpp.
TEST_CASE("ranks have the step of one batch, whatever their parts weigh", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  for (const UnevenRun& run : uneven_runs(directory)) {
    if (run.name != "class weights" && run.name != "pixels" && run.name != "anchors" && run.name != "tokens")
      continue;
    INFO(run.name);
    const std::string config = directory.write("config.json", run.config.dump());
    const auto trained = [&](const std::string& name, int ranks) {
      std::filesystem::remove_all(directory / name);
      must(run_ranks(directory, ranks,
                     in(name, {"train", config, "--limit-steps=1", "log_every=1", "precision=fp32",
                               "parallel.sync_batch_norm=true"})));
      return events_of(directory / name, "step").front();
    };
    const json whole = trained("whole", 0);
    for (const int ranks : {2, 4}) {
      const json parts = trained("parts", ranks);
      CHECK(parts["loss"].get<double>() == Approx(whole["loss"].get<double>()).epsilon(1e-6));
      CHECK(parts["grad_norm"].get<double>() == Approx(whole["grad_norm"].get<double>()).epsilon(2e-6));
      CHECK(distance(weights_of(directory / "parts"), weights_of(directory / "whole")) < 1e-6);
    }
  }
}

TEST_CASE("batches that leave ranks without samples, and shards that ranks share unevenly, are trained on",
          "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto trained = [&](const std::string& run, int ranks, const std::vector<std::string>& more) {
    must(run_ranks(
        directory, ranks,
        in(run,
           joined({"train", "digits_mlp", "epochs=2", "optimizer={\"name\": \"sgd\", \"lr\": 0.1}"}, more))));
    return losses_of(directory / run);
  };
  const auto check_close = [](const std::vector<double>& losses, const std::vector<double>& wanted) {
    REQUIRE(losses.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(losses[i] == Approx(wanted[i]).epsilon(1e-5));
  };
  // The last batch has one sample.
  const std::vector<std::string> uneven{"data.train_size=201", "data.batch_size=100"};
  const std::vector<double> whole = trained("whole", 0, uneven);
  check_close(trained("two", 2, uneven), whole);
  check_close(trained("four", 4, uneven), whole);
  check_close(trained("at_once", 4, joined(uneven, {"parallel.bucket_mb=0"})), whole);
  check_close(trained("more", 2, joined(uneven, {"parallel.shards=3"})), whole);
  check_close(trained("most", 3, joined(uneven, {"parallel.shards=4", "accumulate=2"})),
              trained("accumulated", 0, joined(uneven, {"accumulate=2"})));
  must(run_ranks(directory, 4,
                 {"train", "digits_mlp", "data.train_size=3", "data.batch_size=8", "--dry-run"}));
}

TEST_CASE("two gradients have one sum, whatever is added up when", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  must(run_ranks(directory, 2, in("at_once", joined(kResNet, {"parallel.bucket_mb=0"}))));
  must(run_ranks(directory, 2, in("buckets", joined(kResNet, {"parallel.bucket_mb=0.01"}))));
  CHECK(same_end(directory / "at_once", directory / "buckets"));
}

TEST_CASE("gradients are sent in 16 bits where that is asked for, and what it costs is told",
          "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto with = [&](const std::string& run, const std::string& wire) {
    must(run_ranks(directory, 2, in(run, joined(kResNet, {"precision=amp_fp16", "parallel.wire=" + wire}))));
    return losses_of(directory / run);
  };
  const std::vector<double> wide = with("wide", "fp32");
  for (const std::string wire : {"bf16", "fp16"}) {
    const std::vector<double> losses = with(wire, wire);
    REQUIRE(losses.size() == wide.size());
    CHECK(losses.front() == wide.front());
    CHECK(losses.back() != wide.back());
    CHECK(losses.back() == Approx(wide.back()).epsilon(0.02));
    CHECK_THAT(read_text(directory / wire / "log.txt"),
               Catch::Contains("gradients are sent in " + wire + ": the error of their sum is 0."));
  }
}

TEST_CASE("a batch size for each rank makes the step's so many times as large", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto with = [&](const char* batch) { return joined(kDigits, {batch}); };
  must(run_ranks(directory, 2, in("whole", with("data.batch_size=40"))));
  must(run_ranks(directory, 2, in("each", joined(with("data.batch_size=20"), {"parallel.per_rank=true"}))));
  CHECK(saved_tensors(directory / "whole", "weights") == saved_tensors(directory / "each", "weights"));
  // The configuration stays as it was given, so that it can be gone on with.
  const json config = json::parse(read_text(directory / "each/config.json"));
  CHECK(config["data"]["batch_size"] == 20);
  const Outcome longer = run_ranks(directory, 2, {"train", "each", "epochs=3", "-q"});
  CHECK(longer.exit_code == 0);
  const Outcome wider = run_ranks(directory, 3, {"train", "each", "epochs=4", "-q"});
  CHECK(wider.exit_code == 2);
  CHECK_THAT(wider.err, Catch::Contains("data.batch_size: 40 → 60"));
  CHECK_THAT(refused(run_ranks(directory, 0, in("alone", joined(kDigits, {"parallel.per_rank=true"})))),
             Catch::Contains("parallel.per_rank: needs several processes"));
}

TEST_CASE("ranks share the segments of the loss scale", "[program][ranks][segments]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto arguments = joined(kDigits, {"parallel.reduction=reproducible", "parallel.shards=4",
                                          R"(precision={"level":"O1","dtype":"fp16","scaler":"segments"})"});
  must(run_ranks(directory, 2, in("begun", joined(arguments, {"--limit-steps=3"}))));
  // What another calibration might have found.
  const auto file = directory / "begun" / "calibration.json";
  json found = json::parse(read_text(file));
  REQUIRE(found["segments"].size() == 1);
  json body = found["segments"][0];
  body["border"] = "activation1";
  body["log2_scale"] = body["log2_scale"].get<int>() - 4;
  body["parameters"] = {"fc1.weight", "fc1.bias"};
  found["segments"][0]["parameters"] = {"fc2.weight", "fc2.bias"};
  found["segments"].push_back(body);
  std::ofstream(file) << found.dump();
  for (const int ranks : {0, 2, 3}) {
    std::filesystem::copy(directory / "begun", directory / name_of(ranks),
                          std::filesystem::copy_options::recursive);
    must(run_ranks(directory, ranks, {"train", name_of(ranks), "-q"}));
    CHECK(same_end(directory / name_of(ranks), directory / name_of(0)));
  }
}

TEST_CASE("a run goes on with any number of ranks, in the middle of a stream", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  write_text(directory);
  const auto arguments = joined(language(), {"parallel.reduction=reproducible", "parallel.shards=5"});
  must(run_ranks(directory, 0, in("whole", arguments)));
  must(run_ranks(directory, 2, in("parts", joined(arguments, {"--limit-steps", "7"}))));
  must(run_ranks(directory, 0, {"train", "parts", "--limit-steps", "12", "-q"}));
  must(run_ranks(directory, 3, {"train", "parts", "-q"}));
  CHECK(same_end(directory / "whole", directory / "parts"));
  CHECK_THAT(read_text(directory / "parts/log.txt"),
             Catch::Contains("changed: ranks: 2 → 1") && Catch::Contains("changed: ranks: 1 → 3"));
  CHECK(json::parse(read_text(directory / "parts/environment.json"))["ranks"].size() == 3);
}

TEST_CASE("ranks count alike where a batch leaves some of them without samples", "[program][ranks]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto arguments = joined(
      {R"(model={"layers": [{"type": "conv2d", "out_channels": 8, "kernel": 3, "stride": 2, "bias": false},
                            {"type": "batch_norm"}, {"type": "relu"}, {"type": "flatten"},
                            {"type": "linear", "out_features": 10}]})"},
      {"epochs=1", "data.train_size=121", "data.batch_size=60", "parallel.shards=4",
       "parallel.reduction=reproducible"});
  for (const int ranks : {0, 2, 4})
    must(run_ranks(directory, ranks, in(name_of(ranks), joined({"train", "digits_mlp"}, arguments))));
  CHECK(same_end(directory / name_of(2), directory / name_of(0)));
  CHECK(same_end(directory / name_of(4), directory / name_of(0)));
}
