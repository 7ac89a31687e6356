// Joint work of ranks: batch norm over all shards, against one process with the whole batch, and a divided
// update, against an update on each rank.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "files/safetensors.h"
#include "tests/program/ranks.h"

using namespace tandem::testing;
using nlohmann::json;

namespace {

using Arguments = std::vector<std::string>;

// A classifier with batch norm in every layer, whose first moment after a step is the gradient of the batch.
const Arguments kNormal{"train",
                        "fashion_resnet8_table",
                        "schedule=constant",
                        "optimizer={\"name\": \"sgd\", \"lr\": 0.05, \"momentum\": 0.9}",
                        "epochs=1",
                        "data.train_size=70",
                        "data.test_size=40",
                        "data.batch_size=22",
                        "data.drop_last=false"};
const Arguments kNorm{"parallel.sync_batch_norm=true"};
const Arguments kDivided{"parallel.shard_optimizer=true"};
const Arguments kTree{"parallel.reduction=reproducible", "parallel.shards=4"};
const Arguments kAveraged{"optimizer={\"name\": \"adamw\", \"lr\": 0.002}", "ema={\"decay\": 0.9}",
                          "clip_norm=0.5", "precision=amp_bf16", "parallel.check_every=1"};
const Arguments kSteps{"train", "digits_mlp", "epochs=2", "data.train_size=200"};

// A recurrent network in FP16 whose first scales are too high.
Arguments overflowing() {
  return {"train",
          "debian_lstm",
          R"(data={"name": "text", "train": "text.txt", "validation": "text.txt", "test": "text.txt",
                   "batch_size": 6, "steps": 9})",
          R"(model={"name": "language_model", "embedding": 8, "units": 8, "num_layers": 2, "dropout": 0.2})",
          R"(precision={"level": "O1", "dtype": "fp16", "on_skip": "retry", "max_skips": 100,
                        "scaler": {"initial": 16777216, "interval": 5, "ceiling": 1099511627776}})",
          "optimizer.lr=1",
          "epochs=2"};
}

Arguments into(const std::string& run, Arguments arguments) {
  return joined(std::move(arguments), {"run_dir=" + run, "threads=1", "-q"});
}

using Values = std::map<std::string, std::vector<double>>;

// Tensors of the newest state whose names begin so.
Values state_of(const std::filesystem::path& run, const std::string& prefix) {
  const tandem::safetensors::File file((newest_checkpoint(run) / "state.safetensors").string());
  Values values;
  for (const auto& entry : file.entries())
    if (entry.name.starts_with(prefix)) values[entry.name] = file.read(entry).to_vector<double>();
  REQUIRE_FALSE(values.empty());
  return values;
}

// ‖a − b‖ / ‖b‖ over all of them.
double apart(const Values& a, const Values& b) {
  double difference = 0.0, norm = 0.0;
  REQUIRE(a.size() == b.size());
  for (const auto& [name, wanted] : b) {
    const auto found = a.find(name);
    REQUIRE((found != a.end() && found->second.size() == wanted.size()));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      difference += std::pow(found->second[i] - wanted[i], 2);
      norm += std::pow(wanted[i], 2);
    }
  }
  return std::sqrt(difference / norm);
}

std::vector<double> losses_in(const std::filesystem::path& run, const std::string& phase = "") {
  std::vector<double> losses;
  for (const auto& event : events_of(run, "step", phase)) losses.push_back(event["loss"]);
  REQUIRE_FALSE(losses.empty());
  return losses;
}

void check_near(const std::vector<double>& losses, const std::vector<double>& wanted, double epsilon) {
  REQUIRE(losses.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(losses[i] == Approx(wanted[i]).epsilon(epsilon));
}

std::string ranks_name(int ranks) { return "ranks" + std::to_string(ranks); }

// So many ranks, or with 0 one process by itself.
std::filesystem::path trained(const TemporaryDirectory& directory, const std::string& run, int ranks,
                              const Arguments& arguments) {
  must(run_ranks(directory, ranks, into(run, arguments)));
  return directory / run;
}

void write_some_text(const TemporaryDirectory& directory) {
  std::ofstream file(directory / "text.txt");
  const char* const words[] = {"a cat", "the dog", "one bird", "my fish", "no cow"};
  for (int i = 0; i < 240; ++i) file << words[i % 5] << " sees " << words[i * i % 4] << '\n';
}

}  // namespace

TEST_CASE("batch norm over ranks gives the gradients and statistics of the whole batch",
          "[program][ranks][norm]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const Arguments step = joined(kNormal, {"--limit-steps", "1"});
  const auto whole = trained(directory, "whole", 0, step);
  for (const int ranks : {2, 3, 4}) {
    const auto run = trained(directory, ranks_name(ranks), ranks, joined(step, kNorm));
    INFO(ranks << " ranks");
    // Of the first convolution alone, below a batch norm of images with a mean, the gradient is a small
    // difference of large terms.
    Values found = state_of(run, "moment."), wanted = state_of(whole, "moment.");
    const std::string first = "moment.momentum.conv1.weight";
    CHECK(apart({{first, found.at(first)}}, {{first, wanted.at(first)}}) <= 2e-4);
    found.erase(first);
    wanted.erase(first);
    CHECK(apart(found, wanted) <= 1e-6);
    CHECK(apart(state_of(run, "statistic."), state_of(whole, "statistic.")) <= 1e-6);
  }
  // Apart they have others.
  const auto own = trained(directory, "own", 2, step);
  CHECK(apart(state_of(own, "moment."), state_of(whole, "moment.")) > 1e-2);
  CHECK(apart(state_of(own, "statistic."), state_of(whole, "statistic.")) > 1e-4);
}

TEST_CASE("batch norm over ranks goes on where some of them have no samples", "[program][ranks][norm]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  // Batches of 22, 22, 22 and 3 samples; in small buckets, which meet batch norm's sums on their way.
  const Arguments uneven = joined(kNormal, {"data.train_size=69", "parallel.bucket_mb=0.01"});
  const auto whole = losses_in(trained(directory, "whole", 0, uneven));
  REQUIRE(whole.size() == 4);
  for (const int ranks : {2, 4}) {
    INFO(ranks << " ranks");
    const auto run = trained(directory, ranks_name(ranks), ranks, joined(uneven, kNorm));
    check_near(losses_in(run), whole, 1e-3);
    CHECK(apart(state_of(run, "statistic."), state_of(directory / "whole", "statistic.")) <= 2e-3);
  }
  // A step of two such batches.
  const Arguments gathering = joined(uneven, {"accumulate=2"});
  check_near(losses_in(trained(directory, "gathered", 4, joined(gathering, kNorm))),
             losses_in(trained(directory, "gathered_whole", 0, gathering)), 1e-3);
}

TEST_CASE("batch norm over ranks in 16 bits is that of the whole batch within rounding",
          "[program][ranks][norm]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const Arguments step = joined(kNormal, {"precision=amp_bf16", "--limit-steps", "1"});
  const auto whole = trained(directory, "whole", 0, step);
  for (const int ranks : {2, 3}) {
    INFO(ranks << " ranks");
    const auto run = trained(directory, ranks_name(ranks), ranks, joined(step, kNorm));
    CHECK(apart(state_of(run, "moment."), state_of(whole, "moment.")) <= 0.02);
    CHECK(apart(state_of(run, "statistic."), state_of(whole, "statistic.")) <= 1e-3);
  }
}

TEST_CASE("steps that overflow are looked into and done again beside batch norm over ranks",
          "[program][ranks][norm]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  // The last batch leaves ranks without samples, which have to look into it, too.
  const Arguments overflows =
      joined(kNormal, {R"(precision={"level": "O1", "dtype": "fp16", "on_skip": "retry", "diagnose": 2,
                   "scaler": {"initial": 1073741824, "interval": 1, "ceiling": 1099511627776}, "max_skips": 100})",
                       "data.train_size=46"});
  const auto whole = trained(directory, "whole", 0, overflows);
  const auto run = trained(directory, "ranks3", 3, joined(overflows, kNorm));
  check_near(losses_in(run), losses_in(whole), 0.01);
  REQUIRE_FALSE(events_of(run, "overflow").empty());
  CHECK_THAT(events_of(run, "overflow")[0]["tensor"].get<std::string>(), Catch::Contains("of rank "));
  CHECK(events_of(run, "overflow").size() == events_of(whole, "overflow").size());
}

TEST_CASE("two networks, resumes, benches and dry runs take batch norm over ranks",
          "[program][ranks][norm]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const Arguments pair{"train",         "dcgan_fashion",      "epochs=1",         "data.train_size=32",
                       "model.width=4", "data.batch_size=16", "data.test_size=64"};
  // Each shard draws noise of its own, so there is no process to compare with: statistics of both shards
  // differ from a shard's own, and not by much.
  const Arguments checked = joined(pair, {"parallel.check_every=1"});
  const auto together = trained(directory, "together", 2, joined(checked, kNorm)),
             each = trained(directory, "each", 2, checked);
  for (const char* const phase : {"discriminator", "generator"}) {
    const auto losses = losses_in(together, phase), others = losses_in(each, phase);
    CHECK(losses.size() == 2);
    CHECK(losses != others);
    check_near(losses, others, 0.05);
  }
  // In two parts, with the bits of one.
  const auto once = trained(directory, "once", 2, joined(kNormal, kNorm));
  must(run_ranks(directory, 2, into("parts", joined(joined(kNormal, kNorm), {"--limit-steps", "2"}))));
  must(run_ranks(directory, 2, {"train", "parts", "-q"}));
  CHECK(same_end(once, directory / "parts"));
  const json bench = json::parse(must(run_ranks(directory, 2,
                                                {"bench", "resnet20_synthetic", "--steps", "3", "--warmup",
                                                 "1", "data.batch_size=8", "--json", kNorm[0], kDivided[0]}))
                                     .out);
  CHECK(bench["step_ms"]["together"].get<double>() > 0.0);
  must(run_ranks(directory, 3, joined(joined(kNormal, kNorm), {"data.batch_size=3", "--dry-run"})));
}

TEST_CASE("an update that ranks divide has the bits of one that each of them makes",
          "[program][ranks][parts]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto check = [&](const std::string& name, int ranks, const Arguments& arguments) {
    INFO(name << ", " << ranks << " ranks");
    const auto each = trained(directory, name + "_each", ranks, arguments);
    const auto divided = trained(directory, name + "_divided", ranks, joined(arguments, kDivided));
    CHECK(same_end(each, divided));
  };
  SECTION("shards that are added reproducibly, averages and a norm that is clipped") {
    check("tree", 3, joined(joined(kNormal, kTree), kAveraged));
  }
  SECTION("two ranks, of which there is one sum") { check("fast", 2, joined(kNormal, kAveraged)); }
  SECTION("rules with a norm of each parameter") {
    check("lamb", 3, joined(joined(kSteps, kTree), {"optimizer={\"name\": \"lamb\", \"lr\": 0.01}"}));
    check("lars", 2, joined(kSteps, {"optimizer={\"name\": \"lars\", \"lr\": 0.1}"}));
  }
  SECTION("a mean of the last weights") {
    check(
        "asgd", 2,
        joined(kSteps, {"optimizer={\"name\": \"sgd\", \"lr\": 0.1}", "asgd={\"patience\": 0}", "epochs=4"}));
  }
  SECTION("two networks") {
    check("pair", 2,
          {"train", "dcgan_fashion", "epochs=1", "data.train_size=32", "model.width=4", "data.batch_size=16",
           "data.test_size=64"});
  }
  SECTION("steps that overflow and are done again, and batches that leave ranks without samples") {
    write_some_text(directory);
    check("retry", 3, joined(overflowing(), {"parallel.reduction=reproducible", "parallel.shards=3"}));
    check("uneven", 2, joined(kSteps, {"data.train_size=201", "data.batch_size=100", "accumulate=2"}));
  }
  SECTION("gradients in 16 bits") {
    check("wire", 2, joined(kNormal, {"precision=amp_fp16", "parallel.wire=bf16", "parallel.bucket_mb=0"}));
    CHECK_THAT(read_text(directory / "wire_divided" / "log.txt"),
               Catch::Contains("gradients are sent in bf16: the error of their sum is 0."));
  }
}

TEST_CASE("an update that ranks divide otherwise than by two differs by rounding",
          "[program][ranks][parts]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto each = trained(directory, "each", 4, joined(kSteps, {"--limit-steps", "5"}));
  const auto divided =
      trained(directory, "divided", 4, joined(joined(kSteps, {"--limit-steps", "5"}), kDivided));
  check_near(losses_in(divided), losses_in(each), 1e-5);
}

TEST_CASE("a run whose update ranks divide goes on with any number of them, divided or not",
          "[program][ranks][parts]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  write_some_text(directory);
  const Arguments tree = joined(overflowing(), {"parallel.reduction=reproducible", "parallel.shards=5",
                                                "optimizer={\"name\": \"adam\", \"lr\": 0.01}"});
  const auto whole = trained(directory, "whole", 0, tree);
  trained(directory, "parts", 2, joined(joined(tree, kDivided), {"--limit-steps", "7"}));
  must(run_ranks(directory, 0, {"train", "parts", "--limit-steps", "12", "-q"}));
  must(run_ranks(directory, 3, {"train", "parts", "--limit-steps", "17", "-q"}));
  must(run_ranks(directory, 2, {"train", "parts", "parallel.shard_optimizer=false", "-q"}));
  CHECK(same_end(whole, directory / "parts"));
}

TEST_CASE("errors of joint work of ranks are one line", "[program][ranks][norm][parts]") {
  if (cannot_be_started()) return;
  const TemporaryDirectory directory;
  const auto told = [&](int ranks, const Arguments& arguments) {
    const Outcome outcome = run_ranks(directory, ranks, arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    std::vector<std::string> lines;
    std::istringstream text(outcome.err);
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("tandem: ") || line.starts_with("rank ")) lines.push_back(line);
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
  CHECK_THAT(told(2, joined(joined(kNormal, kNorm), {"parallel.shards=4"})),
             Catch::Contains("parallel.sync_batch_norm") && Catch::Contains("4 shards on 2 ranks"));
  CHECK_THAT(told(2, joined(joined(kNormal, kNorm), kTree)),
             Catch::Contains("parallel.sync_batch_norm") && Catch::Contains("reproducible"));
  CHECK_THAT(told(2, joined(joined(kNormal, kDivided),
                            {R"(precision={"level": "O3", "dtype": "bf16", "rounding": "stochastic"})"})),
             Catch::Contains("parallel.shard_optimizer: stochastic rounding"));
  // One value a channel over all ranks.
  CHECK_THAT(refused(run_ranks(directory, 0, joined(joined(kNormal, kNorm), kTree))),
             Catch::Contains("4 shards (parallel.reduction: reproducible) on 1 rank,"));
  // By itself a process has the whole batch, and all of the update.
  trained(directory, "alone", 0, joined(joined(joined(kSteps, kNorm), kDivided), {"--limit-steps", "2"}));
  trained(directory, "plain", 0, joined(kSteps, {"--limit-steps", "2"}));
  CHECK(same_end(directory / "alone", directory / "plain"));
  CHECK_FALSE(std::filesystem::exists(directory / "runs"));
}
