// Set-up, report and null arm of a comparison, without training.
#include <nlohmann/json.hpp>
#include <set>

#include "config/task.h"
#include "core/tensor.h"
#include "models/registry.h"
#include "studies/compare/capacity.h"
#include "studies/compare/report.h"
#include "tests/support/temporary_files.h"
#include "train/perturbation.h"
#include "train/setup.h"

using namespace tandem;
using namespace tandem::compare;
using Catch::Contains;
using testing::user_error_of;

namespace {

Experiment plan_of(const std::string& compare) {
  return make_experiment({"digits_mlp", {"compare=" + compare}, "out"});
}

SeedResult seed(std::int64_t number, double value) {
  return {.seed = number,
          .value = value,
          .own = value - 0.25,
          .steps = 10,
          .applied = 10,
          .train_s = 1.5,
          .peak_memory_bytes = 2'000'000};
}

std::vector<SeedResult> seeds(const std::vector<double>& values) {
  std::vector<SeedResult> results;
  for (const double value : values)
    results.push_back(seed(static_cast<std::int64_t>(results.size()) + 1, value));
  return results;
}

std::vector<Block> round_of(const std::string& mode, std::int64_t round, double seconds, double arm_seconds) {
  std::vector<Block> blocks;
  for (int block = 1; block <= 4; ++block) {
    const bool arm = block == 2 || block == 3;
    blocks.push_back(
        {arm ? "amp_fp16" : "fp32", mode, round, block, 50, 50, 1600, arm ? arm_seconds : seconds});
  }
  return blocks;
}

const std::string kThree = R"({"arms": ["fp32_null", "fp32", "amp_fp16"], "margin": 0.5})";

Report example() {
  auto results = std::vector<std::vector<SeedResult>>{seeds({92.5, 92.75, 93.0, 92.25, 92.5}),
                                                      seeds({92.5, 92.5, 93.25, 92.25, 92.5}),
                                                      seeds({92.25, 92.75, 93.0, 92.5, 92.5})};
  results[2][3].skipped = 2;
  results[2][3].applied = 8;
  ArmSpeed speed;
  speed.blocks = round_of("compute", 1, 1.0, 0.5);
  speed.compute = ratio_of(speed.blocks, "compute");
  speed.peak_memory_bytes = 3'000'000;
  speed.memory = {{"masters", 1'000'000}, {"weights", 0}};
  return make_report(plan_of(kThree), std::move(results), {std::nullopt, std::nullopt, speed});
}

}  // namespace

TEST_CASE("the arms of a plan", "[compare]") {
  const Experiment usual = make_experiment({"digits_mlp", {}, ""});
  CHECK(usual.out == "runs/digits_mlp-compare");
  CHECK(usual.seeds == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  CHECK(usual.default_margin);
  const Experiment plan = plan_of(R"({"seeds": 2, "margin": 1, "arms": ["amp_bf16", "fp32", "fp32_null",
      {"precision": "amp_fp16", "scaler": "none"}, {"precision": "amp_fp16", "scaler": {"static": 64}},
      {"level": "O2", "dtype": "bf16", "name": "o2"}]})");
  std::vector<std::string> names, precisions;
  for (const Arm& arm : plan.arms) {
    names.push_back(arm.name);
    precisions.push_back(arm.precision);
  }
  CHECK(names == std::vector<std::string>{"fp32", "amp_bf16", "fp32_null", "amp_fp16-scaler-none",
                                          "amp_fp16-scaler-static-64", "o2"});
  CHECK(precisions[0] == "fp32");
  CHECK(precisions[1] == "amp_bf16");
  CHECK(precisions[2] == "fp32");
  CHECK(plan.arms[3].emulated);
  CHECK_FALSE(plan.arms[1].emulated);
  CHECK_FALSE(plan.default_margin);
  CHECK(plan.run_directory(plan.arms[1], 2) == "out/arms/amp_bf16/seed-2");

  const config::Config config = config::load(plan.config, plan.arguments(plan.arms[4], 2)).config;
  CHECK(config.seed == 2);
  CHECK(config.run_dir == "out/arms/amp_fp16-scaler-static-64/seed-2");
  CHECK(config.precision.scaler.static_scale == 64.0);
  CHECK(config.precision.on_skip == "drop");  // a static scale overflows again
  CHECK(config::load(usual.config, usual.arguments(usual.arms[2], 1)).config.precision.on_skip == "retry");
  CHECK_FALSE(config.compare);
  CHECK(config::load(plan.config, plan.arguments(plan.arms[2], 1)).config.init_ulps == 1);
  CHECK(config::load(plan.config, plan.arguments(plan.arms[0], 1)).config.init_ulps == 0);
  CHECK_THAT(user_error_of([] { plan_of(R"({"arms": ["fp32", "amp_bf61"]})"); }),
             Contains("compare.arms.1: no precision is named \"amp_bf61\"; did you mean"));
}

TEST_CASE("margins are in the units of what is compared", "[compare]") {
  const Experiment shares = make_experiment({"unet_scenes", {}, "out"});
  CHECK(shares.metric == "miou");
  CHECK(shares.percent);
  CHECK(shares.greater_is_better);
  const Experiment distances = make_experiment({"dcgan_fashion", {}, "out"});
  CHECK(distances.metric == "fd_lenet");
  CHECK_FALSE(distances.percent);
  CHECK_FALSE(distances.greater_is_better);
  const Experiment losses = make_experiment({"digits_mlp", {"checkpoint.best=loss"}, "out"});
  CHECK_FALSE(losses.percent);
  CHECK_FALSE(losses.greater_is_better);
}

TEST_CASE("the table says what was found", "[compare]") {
  const Report report = example();
  const std::string table = table_markdown(report);
  CHECK_THAT(table, Contains("| fp32 | 92.60 ± 0.29 (5) | – | – | – | baseline | 0 | 0 | – | 2.0 |\n"));
  CHECK_THAT(table,
             Contains("| fp32_null | 92.60 ± 0.38 (5) | +0.00 | [-0.17, +0.17] | ± 0.5 | equivalent | 0 | "
                      "0 | – | 2.0 |\n"));
  CHECK_THAT(table,
             Contains("| amp_fp16 | 92.60 ± 0.29 (5) | +0.00 | [-0.17, +0.17] | ± 0.5 | equivalent | 0 | "
                      "2 | 2.00 [2.00–2.00] emulated | 3.0 |\n"));
  CHECK_THAT(table, Contains("± 0.5 percentage points of accuracy, fixed before"));
  CHECK_THAT(table, Contains("amp_fp16: the number of applied updates differs from fp32 with seed 4."));
  CHECK_THAT(table, Contains("precision, the means are amp_fp16 92.35."));
  CHECK_THAT(table, Contains("Memory of amp_fp16 in MB at the peak: masters 1.0."));
  CHECK(report.all_equivalent());

  const auto json = nlohmann::json::parse(report_json(report));
  CHECK(json["rows"][2]["speedup"]["median"] == 2.0);
  CHECK(json["rows"][2]["skipped"] == 2);
  CHECK(json["rows"][2]["memory"]["masters"] == 1'000'000);
  CHECK(json["rows"][1]["speedup"].is_null());
  CHECK(json["rows"][1]["ci90"][0] == Approx(-0.1685).epsilon(1e-3));
}

TEST_CASE("memory is one measure throughout the table", "[compare]") {
  ArmSpeed baseline;
  baseline.peak_memory_bytes = 1'000'000;
  auto results = std::vector<std::vector<SeedResult>>(3, seeds({92.0, 93.0, 92.5, 92.25, 92.75}));
  const Report report = make_report(plan_of(kThree), std::move(results), {baseline, std::nullopt, baseline});
  REQUIRE(report.rows[1].arm.name == "fp32_null");
  for (const Row& row : report.rows) CHECK(row.peak_memory_bytes == 1'000'000);
}

TEST_CASE("a diverged seed decides", "[compare]") {
  auto results = std::vector<std::vector<SeedResult>>(3, seeds({92.0, 93.0, 92.5, 92.25, 92.75, 93.5}));
  results[2][1] = {.seed = 2, .diverged = true, .failure = "step 3: the loss is nan, \"sadly\""};
  const Report report = make_report(plan_of(kThree), std::move(results), {});
  CHECK(report.rows[2].n == 5);
  CHECK(report.rows[2].verdict->text() == "not equivalent, worse");
  CHECK(report.rows[1].verdict->text() == "equivalent");
  CHECK_FALSE(report.all_equivalent());
  CHECK_THAT(table_markdown(report), Contains("amp_fp16 diverged with seed 2: step 3: the loss is nan"));
  CHECK_THAT(
      seeds_csv(report),
      Contains("amp_fp16,amp_fp16,2,diverged,,,0,0,0,0.000,0,\"step 3: the loss is nan, \"\"sadly\"\"\"\n"));
  CHECK(nlohmann::json::parse(report_json(report))["rows"][2]["values"][1].is_null());
}

TEST_CASE("sizes of memory are read with their units", "[compare]") {
  CHECK(parse_bytes("1000") == 1000);
  CHECK(parse_bytes("1.5 kB") == 1500);
  CHECK(parse_bytes("2MB") == 2'000'000);
  CHECK(parse_bytes("3 GB") == 3'000'000'000);
  CHECK(parse_bytes("1 KiB") == std::size_t{1} << 10);
  CHECK(parse_bytes("5 MiB") == std::size_t{5} << 20);
  CHECK(parse_bytes("0.5GiB") == std::size_t{1} << 29);
  for (const char* wrong : {"", "GiB", "-1 MB", "0", "1 TB", "1 gib", "1e40", "nan"})
    CHECK_THAT(user_error_of([&] { parse_bytes(wrong); }), Catch::Contains("is not a memory size"));
}

TEST_CASE("a speed is the ratio of rounds", "[compare]") {
  std::vector<Block> blocks;
  for (int round = 1; round <= 3; ++round) {
    for (const Block& block : round_of("compute", round, 2.0, 2.0 / round)) blocks.push_back(block);
    for (const Block& block : round_of("loader", round, 1.0, 1.0)) blocks.push_back(block);
  }
  const auto compute = ratio_of(blocks, "compute");
  REQUIRE(compute);
  CHECK(compute->median == Approx(2.0));
  CHECK(compute->p10 == Approx(1.2));
  CHECK(compute->p90 == Approx(2.8));
  CHECK(ratio_of(blocks, "loader")->median == Approx(1.0));
  CHECK_FALSE(ratio_of({}, "compute"));
  blocks.front().items = 0;  // skipped steps count for nothing
  CHECK(ratio_of(blocks, "compute")->p10 > 1.2);
}

TEST_CASE("the null arm is one ulp off, everywhere and by the seed alone", "[compare]") {
  const config::Loaded loaded = config::load("digits_mlp");
  const tasks::DataPtr data = config::describe_data(loaded.config);
  const auto weights = [&](std::uint64_t seed, std::int64_t ulps) {
    const auto task = config::make_task(loaded, data);
    train::perturb(task->model(), seed, ulps);
    std::vector<float> values;
    for (const Parameter& parameter : task->model().parameters()) {
      const float* first = parameter.value().data<float>();
      values.insert(values.end(), first, first + parameter.value().numel());
    }
    return values;
  };
  const auto plain = weights(1, 0), moved = weights(1, 1);
  REQUIRE(plain.size() == 4810);
  std::size_t up = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const bool higher = moved[i] > plain[i];
    up += higher ? 1 : 0;
    CHECK(moved[i] == std::nextafter(plain[i], higher ? INFINITY : -INFINITY));
  }
  CHECK(up > 2200);
  CHECK(up < 2600);
  CHECK(weights(1, 1) == moved);
  CHECK(weights(2, 1) != moved);
  CHECK(std::abs(weights(1, 1000)[0] - plain[0]) > 500 * std::abs(moved[0] - plain[0]));
}
