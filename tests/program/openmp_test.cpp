// OpenMP's variables: a training has the bits of one without them and the same number of threads, or is
// refused before its first step in a line that names the variable.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "core/cpu/cpu_features.h"
#include "tests/program/support.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

using Variables = std::map<std::string, std::string>;

class Trainings {
 public:
  Trainings() {
    std::ofstream text(directory_.path() / "words.txt");
    for (int i = 0; i < 120; ++i) text << (i % 3 ? "the cat sat on a mat\n" : "a dog ran to the cat\n");
  }

  Outcome run(const std::vector<std::string>& family, const std::string& name, Variables variables) const {
    variables.try_emplace("OMP_NUM_THREADS", "2");
    return launch({.arguments = joined(family, {"epochs=1", "-q", "tensorboard=false", "run_dir=" + name}),
                   .directory = directory_.path().string(),
                   .environment = std::move(variables)});
  }

  std::string weights(const std::string& name) const {
    return saved_tensors(directory_.path() / name, "weights");
  }
  std::filesystem::path operator/(const std::string& name) const { return directory_.path() / name; }

 private:
  TemporaryDirectory directory_;
};

// Convolutions of every pass by the library and own kernels; recurrent layers, tables and wide products.
const std::vector<std::vector<std::string>> kFamilies = {
    {"train", "digits_mlp", "model=resnet8", "precision=amp_bf16", "data.train_size=64", "data.test_size=16",
     "data.batch_size=32"},
    {"train", "debian_lstm", "precision=amp_bf16", "model.units=64", "model.embedding=64",
     R"(data={"name":"text","train":"words.txt","validation":"words.txt","test":"words.txt","batch_size":8,"steps":12,"eval_batch_size":2})"}};

}  // namespace

TEST_CASE("OpenMP's variables change no bit of what is trained", "[program]") {
  const Trainings trainings;
  const std::vector<std::pair<std::string, std::string>> harmless = {
      {"OMP_DYNAMIC", "true"},     {"OMP_MAX_ACTIVE_LEVELS", "0"}, {"OMP_NESTED", "true"},
      {"OMP_PROC_BIND", "spread"}, {"OMP_PLACES", "threads"},      {"OMP_SCHEDULE", "guided,3"},
      {"OMP_STACKSIZE", "16M"},    {"OMP_WAIT_POLICY", "passive"}, {"OMP_THREAD_LIMIT", "2"}};
  for (const auto& family : kFamilies) {
    const bool all = &family == &kFamilies.front();
    const std::string name = "run_" + family[1];
    must(trainings.run(family, name, {}));
    const std::string plain = trainings.weights(name);
    REQUIRE_FALSE(plain.empty());
    for (const auto& [variable, value] : harmless) {
      if (!all && variable != "OMP_DYNAMIC" && variable != "OMP_MAX_ACTIVE_LEVELS") continue;
      INFO(name << " with " << variable << "=" << value);
      const std::string given = name + variable;
      const Outcome outcome = trainings.run(family, given, {{variable, value}});
      INFO(outcome.err);
      REQUIRE(outcome.exit_code == 0);
      CHECK(trainings.weights(given) == plain);
      const auto recorded = nlohmann::json::parse(read_text(trainings / given / "environment.json"));
      CHECK(recorded["openmp"][variable] == value);
    }
    must(trainings.run(family, name + "1", {{"OMP_NUM_THREADS", "1"}}));
    const Outcome limited = trainings.run(family, name + "limited", {{"OMP_THREAD_LIMIT", "1"}});
    INFO(limited.err);
    REQUIRE(limited.exit_code == 0);
    CHECK(trainings.weights(name + "limited") == trainings.weights(name + "1"));
    if (cpu::usable_cpus() > 1)
      CHECK_THAT(limited.err, Contains("OMP_THREAD_LIMIT=1: that many threads compute"));
  }
}

TEST_CASE("stacks that kernels would overrun, or that no thread can have, are refused", "[program]") {
  if (cpu::usable_cpus() == 1) {
    WARN("skipped: one CPU, on which no team has stacks of its own");
    return;
  }
  const Trainings trainings;
  for (const auto& [variable, value] : Variables{{"OMP_STACKSIZE", "64k"}, {"GOMP_STACKSIZE", "100"}}) {
    const std::string error = refused(trainings.run(kFamilies.front(), "run", {{variable, value}}));
    CHECK_THAT(error, Contains(variable + "=" + value) && Contains("kernels need "));
    CHECK_FALSE(std::filesystem::exists(trainings / "run"));
  }
  const std::string error = refused(trainings.run(kFamilies.front(), "run", {{"OMP_STACKSIZE", "900000G"}}));
  CHECK_THAT(error, Contains("OMP_STACKSIZE=900000G") && Contains("no thread starts"));
}
