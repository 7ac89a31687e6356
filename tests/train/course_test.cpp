// Effects of evaluations on a run: a plateau's learning rate and the average of averaged SGD, through
// restarts.
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/node.h"
#include "autograd/observers.h"
#include "config/load.h"
#include "core/random.h"
#include "files/safetensors.h"
#include "runs/checkpoint_store.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_files.h"
#include "tests/train/in_evaluation.h"
#include "train/trainer.h"

using namespace tandem;
using Catch::Contains;
using testing::TemporaryDirectory;

namespace {

// Ends the process, as far as a test can, in the n-th backward pass.
class Killer final : public OpObserver {
 public:
  explicit Killer(int pass) : pass_(pass), observed_(*this) {}
  void before_backward(const Node& node, std::span<const Tensor>) override {
    if (std::strstr(node.info().name, "cross_entropy") && ++passes_ == pass_)
      throw std::runtime_error("killed");
  }

 private:
  int pass_, passes_ = 0;
  ObserverScope observed_;
};

// Words at random, of which nothing can be learnt but how many there are: evaluations soon stall.
config::Loaded a_run(const std::filesystem::path& folder, const std::string& name) {
  std::string text;
  RandomStream random({.seed = 4, .purpose = RandomPurpose::synthetic_data});
  for (int i = 0; i < 3000; ++i) text += fmt::format("w{}{}", random.below(12), i % 9 == 8 ? "\n" : " ");
  std::ofstream(folder / "text.txt") << text;
  std::ofstream(folder / "config.json") << nlohmann::json{
      {"task", "language"},
      {"model",
       {{"name", "language_model"},
        {"embedding", 4},
        {"units", 6},
        {"last_units", 4},
        {"tied", true},
        {"dropout", 0.2},
        {"locked_dropout", true},
        {"word_dropout", 0.1},
        {"weight_dropout", 0.3},
        {"init", 0.3}}},
      {"data",
       {{"name", "text"},
        {"train", (folder / "text.txt").string()},
        {"batch_size", 8},
        {"steps", 20},
        {"random_steps", true}}},
      {"loss", {{"ar", 2.0}, {"tar", 1.0}}},
      {"optimizer", {{"name", "sgd"}, {"lr", 8.0}}},
      {"schedule", {{"plateau", {{"factor", 0.25}, {"min_lr", 0.1}}}}},
      {"asgd", {{"patience", 0}}},
      {"epochs", 8},
      {"threads", 1},
      {"tensorboard", false},
      {"checkpoint", {{"every_steps", 5}}}}.dump();
  return config::load((folder / "config.json").string(), {"run_dir=" + (folder / name).string()});
}

runs::RunDirectory directory_of(const config::Loaded& loaded) {
  return runs::RunDirectory::create(loaded.config.run_dir, "run",
                                    config::resolved(loaded.config).dump(2) + "\n");
}

std::filesystem::path newest(const runs::RunDirectory& run) {
  std::string name = testing::read_text(run.checkpoints() / "latest");
  name.pop_back();
  return run.checkpoints() / name;
}

// (step, learning rate) of every step, the last one told of it.
std::map<std::int64_t, double> rates_of(const runs::RunDirectory& run) {
  std::map<std::int64_t, double> rates;
  std::ifstream lines(run.path() / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "step") rates[event["step"].get<std::int64_t>()] = event["lr"].get<double>();
  }
  return rates;
}

// The step after which an evaluation began the averages.
int begun_after(const runs::RunDirectory& run) {
  const auto stands = nlohmann::json::parse(testing::read_text(newest(run) / "run.json"));
  std::ifstream lines(run.path() / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "eval" && event["epoch"] == stands["state"]["averaging"]["begun"])
      return event["step"].get<int>();
  }
  return 0;
}

}  // namespace

TEST_CASE("a plateau and averaged SGD go on to the bit after a run was killed", "[course]") {
  const TemporaryDirectory directory;
  const config::Loaded loaded = a_run(directory.path(), "whole");
  const runs::RunDirectory whole = directory_of(loaded);
  train::Trainer trainer(loaded, {.quiet = true});
  REQUIRE(trainer.run(&whole, "", train::StopRequest()).status == train::TrainStatus::completed);
  const std::string log = testing::read_text(whole.log());
  CHECK_THAT(log,
             Contains("learning rate divided by 4: validation perplexity has not improved since epoch "));
  CHECK_THAT(log,
             Contains("the mean of the weights is evaluated and saved from here on: validation perplexity"));
  const auto rates = rates_of(whole);
  const auto steps = static_cast<int>(rates.size());
  // Chunks of many lengths; a chunk has twice the mean at most.
  CHECK(rates.begin()->second != std::next(rates.begin())->second);
  CHECK(rates.rbegin()->second < 8.0 / 4.0 * 2.0);

  const int begun = begun_after(whole);
  REQUIRE(begun > 0);
  // The first pass is one in shapes alone; the step after the averages began has begun + 2.
  for (const int pass : {3, steps / 3, steps / 2 + 1, begun + 2, steps - 2}) {
    CAPTURE(pass);
    const config::Loaded again = a_run(directory.path(), fmt::format("cut{}", pass));
    const runs::RunDirectory cut = directory_of(again);
    {
      const Killer killer(pass);
      train::Trainer first(again, {.quiet = true});
      CHECK_THROWS_AS(first.run(&cut, "", train::StopRequest()), std::runtime_error);
    }
    train::Trainer rest(again, {.quiet = true, .resume = true});
    REQUIRE(rest.run(&cut, "", train::StopRequest()).status == train::TrainStatus::completed);
    CHECK(rates_of(cut) == rates);
    for (const char* file : {"weights.safetensors", "state.safetensors", "run.json"})
      CHECK(testing::read_text(newest(cut) / file) == testing::read_text(newest(whole) / file));
  }
}

TEST_CASE("a run that was killed in an evaluation that changes its course goes on to the bit", "[course]") {
  const TemporaryDirectory directory;
  const config::Loaded loaded = a_run(directory.path(), "whole");
  const runs::RunDirectory whole = directory_of(loaded);
  std::set<std::string> killed;  // copies of the run as it is in each evaluation
  {
    const test::InEvaluation copies([&](int) {
      const std::string name = "killed-" + newest(whole).filename().string();
      if (killed.insert(name).second)
        std::filesystem::copy(whole.path(), directory.path() / name,
                              std::filesystem::copy_options::recursive);
    });
    train::Trainer trainer(loaded, {.quiet = true});
    REQUIRE(trainer.run(&whole, "", train::StopRequest()).status == train::TrainStatus::completed);
  }
  REQUIRE_THAT(testing::read_text(whole.log()),
               Contains("learning rate divided by 4") && Contains("the mean of the weights is evaluated"));
  REQUIRE(killed.size() == 8);
  for (const std::string& name : killed) {
    CAPTURE(name);
    const config::Loaded again = a_run(directory.path(), name);
    const auto run = runs::RunDirectory::open((directory.path() / name).string());
    train::Trainer rest(again, {.quiet = true, .resume = true});
    REQUIRE(rest.run(&run, "", train::StopRequest()).status == train::TrainStatus::completed);
    CHECK(rates_of(run) == rates_of(whole));
    for (const char* file : {"weights.safetensors", "state.safetensors", "run.json"})
      CHECK(testing::read_text(newest(run) / file) == testing::read_text(newest(whole) / file));
  }
}

TEST_CASE("a mean of the weights is saved in their place, and training goes on from them", "[course]") {
  const TemporaryDirectory directory;
  const config::Loaded loaded = a_run(directory.path(), "run");
  const runs::RunDirectory run = directory_of(loaded);
  train::Trainer trainer(loaded, {.quiet = true});
  REQUIRE(trainer.run(&run, "", train::StopRequest()).status == train::TrainStatus::completed);
  const safetensors::File weights((newest(run) / "weights.safetensors").string()),
      state((newest(run) / "state.safetensors").string());
  const auto values = [](const safetensors::File& file, const char* name) {
    return file.read(name).to_vector<float>();
  };
  const auto saved = values(weights, "decoder.bias");
  CHECK(saved == values(state, "average.decoder.bias"));
  CHECK(saved != values(state, "master.decoder.bias"));
}

TEST_CASE("averages of two kinds contradict each other", "[course]") {
  CHECK_THAT(testing::user_error_of([] {
               config::load("digits_mlp", {"asgd={}", "ema={}"});
             }),
             Contains("asgd") && Contains("averages the weights as ema does"));
  CHECK_THAT(testing::user_error_of([] { config::load("digits_mlp", {"schedule.plateau.factor=1"}); }),
             Contains("schedule.plateau.factor"));
}
