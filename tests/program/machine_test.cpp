// Limits of the machine: models that do not fit, and more threads than CPUs.
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "core/cpu/cpu_features.h"
#include "core/cpu/level.h"
#include "core/device_library.h"
#include "tests/program/support.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;
using Catch::EndsWith;

namespace {

const std::string kHuge = R"(model={"name":"mlp","hidden":[16777216,16777216]})";  // 2^48 weights: 1 PiB

Outcome with_threads(const TemporaryDirectory& directory, const std::string& count,
                     std::vector<std::string> arguments) {
  return launch({.arguments = std::move(arguments),
                 .directory = directory.path().string(),
                 .environment = {{"OMP_NUM_THREADS", count}}});
}

// A variable that the test's environment lacks for a while.
class Unset {
 public:
  explicit Unset(const char* name) : name_(name) {
    if (const char* value = std::getenv(name)) given_ = value;
    ::unsetenv(name);
  }
  ~Unset() {
    if (given_) ::setenv(name_, given_->c_str(), 1);
  }
  Unset(const Unset&) = delete;
  Unset& operator=(const Unset&) = delete;

 private:
  const char* name_;
  std::optional<std::string> given_;
};

// The build's kernels as a build without one level would hold them. The core looks for levels beside itself,
// with links followed: it is copied.
void place_libraries(const std::filesystem::path& folder, const std::string& left_out) {
  namespace fs = std::filesystem;
  for (const auto& library : fs::directory_iterator(folder_of_core_library())) {
    const std::string name = library.path().filename();
    if (name.starts_with("libtandem.so"))
      fs::copy(library.path(), folder / name, fs::copy_options::copy_symlinks);
    else if (name.starts_with("libtandem_cpu_") && name != "libtandem_cpu_" + left_out + ".so")
      fs::create_symlink(library.path(), folder / name);
  }
}

// What `tandem env --json` says of the CPU.
nlohmann::json cpu_found(const TemporaryDirectory& directory) {
  return nlohmann::json::parse(must(tandem_in(directory, {"env", "--json"})).out)["cpu"];
}

std::string computed_with(int usable) {
  return "this process may use " + std::to_string(usable) + " CPUs; using that many threads";
}

}  // namespace

TEST_CASE("a model that cannot fit is refused at once, with advice that helps", "[program]") {
  const TemporaryDirectory directory;
  for (const char* command : {"validate", "train"}) {
    const std::string error = refused(tandem_in(directory, {command, "digits_mlp", kHuge}));
    for (const char* part : {"command line: model: training its", "masters 1", "fewer units or layers",
                             "2.weight [16777216,16777216]", "A smaller batch does not help"})
      CHECK_THAT(error, Contains(part));
  }
  CHECK_FALSE(std::filesystem::exists(directory.path() / "runs"));
  const Outcome batch = tandem_in(
      directory, {"validate", "resnet50_synthetic", "data.train_size=1000000", "data.batch_size=1000000"});
  CHECK(batch.exit_code == 2);
  CHECK_THAT(batch.err,
             Contains("data.batch_size: a step on 1000000 samples needs") && Contains("accumulate"));
}

TEST_CASE("validate and summary say what a model takes without taking it", "[program]") {
  const TemporaryDirectory directory;
  const Outcome valid = tandem_in(directory, {"validate", "resnet50_synthetic", "data.batch_size=2"});
  CHECK(valid.exit_code == 0);
  CHECK_THAT(valid.out, Contains("valid\n25557032 parameters") && Contains("masters 97.5 MiB") &&
                            Contains("gradients 97.5 MiB") && Contains("on 2 samples"));
  const Outcome summary = tandem_in(directory, {"summary", "digits_mlp", kHuge});
  CHECK(summary.exit_code == 0);
  CHECK_THAT(summary.out,
             Contains("28147625") && Contains("the model does not fit in this machine's memory"));
}

TEST_CASE("threads are limited to the usable CPUs", "[program]") {
  const TemporaryDirectory directory;
  const int usable = cpu::usable_cpus();
  const std::vector<std::string> train = {"train", "digits_mlp", "epochs=1", "data.train_size=64",
                                          "data.test_size=32"};
  for (const char* count : {"100000", "20000"}) {
    const Outcome trained = with_threads(directory, count, train);
    INFO(trained.err);
    CHECK(trained.exit_code == 0);
    CHECK_THAT(trained.err, Contains("OMP_NUM_THREADS=" + std::string(count) + ": " + computed_with(usable)));
    const Outcome found = with_threads(directory, count, {"env", "--json"});
    CHECK(nlohmann::json::parse(found.out)["threads"] == usable);
  }
  CHECK_THAT(with_threads(directory, "1", train).err, !Contains("that many threads"));

  auto configured = train;
  configured.emplace_back("threads=1024");
  const Outcome trained = tandem_in(directory, configured);
  CHECK(trained.exit_code == 0);
  CHECK_THAT(trained.err, Contains("threads=1024: " + computed_with(usable)));
}

TEST_CASE("TANDEM_ISA takes the kernels of a lower level, which the run records", "[program]") {
  const TemporaryDirectory directory;
  const Unset own("TANDEM_ISA");
  const nlohmann::json best = cpu_found(directory);
  const std::string lowest = best["levels_built"][0];
  const auto at = [&](const std::string& level, std::vector<std::string> arguments) {
    return launch({.arguments = std::move(arguments),
                   .directory = directory.path().string(),
                   .environment = {{"TANDEM_ISA", level}}});
  };
  const std::vector<std::string> train = {
      "train", "digits_mlp", "epochs=1", "data.train_size=64", "data.test_size=32", "run_dir=run"};
  const Outcome trained = at(lowest, train);
  INFO(trained.err << trained.out);
  CHECK(trained.exit_code == 0);
  const auto recorded = nlohmann::json::parse(read_text(directory.path() / "run/environment.json"))["cpu"];
  CHECK(recorded["level"] == lowest);
  CHECK(recorded["levels_built"] == best["levels_built"]);

  const Outcome unknown = at("avx2", {"env"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Contains("TANDEM_ISA] \"avx2\" is not a level; available levels: " + lowest));
  CHECK(line_count(unknown.err) == 1);

  CHECK(best["level_reason"] == "the highest level of this CPU");
  if (best["level"] == lowest) return;
  CHECK_THAT(trained.err,
             Contains("using kernels of " + lowest + ": TANDEM_ISA=" + lowest + "; this CPU has "));
  const std::string changed = "kernels of " + lowest + " → " + best["level"].get<std::string>();
  auto strict = train;
  strict.back() = "run_dir=strict";
  strict.emplace_back("deterministic=true");
  CHECK(at(lowest, strict).exit_code == 0);
  const Outcome refused = tandem_in(directory, {"train", "strict", "epochs=2"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("deterministic: the run was computed with the kernels of " + lowest));
  const Outcome resumed = tandem_in(directory, {"train", "run", "epochs=2"});
  INFO(resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.err, Contains(changed));
}

TEST_CASE("a build without the CPU's level computes with the next lower one and says so", "[program]") {
  const TemporaryDirectory directory;
  const Unset own("TANDEM_ISA");
  const nlohmann::json whole = cpu_found(directory);
  const std::string best = whole["level"], kernels = best == "amx" ? "v4_bf16" : best;
  std::string next;  // they are listed lowest first
  for (const std::string level : whole["levels_built"]) {
    if (level == kernels) break;
    next = level;
  }
  if (next.empty()) {
    WARN("skipped: this build has no level below " + kernels);
    return;
  }
  const std::filesystem::path libraries = directory.path() / "libraries";
  std::filesystem::create_directory(libraries);
  place_libraries(libraries, kernels);
  const auto without = [&](std::vector<std::string> arguments,
                           std::map<std::string, std::string> variables = {}) {
    variables["LD_LIBRARY_PATH"] = libraries.string();
    return launch({.arguments = std::move(arguments),
                   .directory = directory.path().string(),
                   .environment = std::move(variables)});
  };
  const std::string reason = next + ": this CPU has " + best + ", but this build lacks kernels for it";

  CHECK_THAT(must(without({"env"})).out, Contains("\nlevel         " + reason));
  const Outcome trained = must(
      without({"train", "digits_mlp", "epochs=1", "data.train_size=64", "data.test_size=32", "run_dir=run"}));
  CHECK_THAT(trained.err, Contains("using kernels of " + reason));
  const auto recorded = nlohmann::json::parse(read_text(directory.path() / "run/environment.json"))["cpu"];
  CHECK(recorded["level"] == next);
  CHECK(recorded["levels_built"].size() == whole["levels_built"].size() - 1);
  CHECK_THAT(refused(without({"env"}, {{"TANDEM_ISA", kernels}})),
             Contains("TANDEM_ISA] this build has no kernels for " + kernels +
                      "; available levels: " + whole["levels_built"][0].get<std::string>()));
}

TEST_CASE("a level above the CPU is refused with those that there are", "[program]") {
  const TemporaryDirectory directory;
  const Unset given("TANDEM_ISA");
  const cpu::Level own = cpu::highest_level(cpu::cpu_features()).value();
  if (own == cpu::Level::amx) {
    WARN("skipped: this CPU has every level");
    return;
  }
  const nlohmann::json built = cpu_found(directory)["levels_built"];
  std::string usable;
  for (const std::string level : built)
    if (cpu::level_named(level).value() <= own) usable += (usable.empty() ? "" : ", ") + level;
  for (const char* above : {"v3", "v4", "v4_bf16", "amx"}) {
    if (cpu::level_named(above).value() <= own) continue;
    for (const auto& arguments : {std::vector<std::string>{"env"}, {"train", "digits_mlp", "run_dir=run"}}) {
      const Outcome outcome = launch({.arguments = arguments,
                                      .directory = directory.path().string(),
                                      .environment = {{"TANDEM_ISA", above}}});
      const std::string error = refused(outcome);
      CHECK_THAT(error,
                 Contains("TANDEM_ISA] this CPU does not support " + std::string(above) + ": it lacks "));
      CHECK_THAT(error, EndsWith("; available levels: " + usable + "\n"));
    }
  }
  CHECK_FALSE(std::filesystem::exists(directory.path() / "run"));
}

TEST_CASE("threads that wait spin briefly, or as the user says", "[program]") {
  const TemporaryDirectory directory;
  const Unset policy("OMP_WAIT_POLICY");
  const auto waiting = [&](const std::map<std::string, std::string>& variables) {
    const Outcome outcome = launch(
        {.arguments = {"env", "--json"}, .directory = directory.path().string(), .environment = variables});
    return nlohmann::json::parse(outcome.out)["waiting"].get<std::string>();
  };
  CHECK(waiting({}) == "spin 50 us, then sleep");
  CHECK(waiting({{"OMP_WAIT_POLICY", "PASSIVE"}}) == "OMP_WAIT_POLICY=passive");
  CHECK(waiting({{"OMP_WAIT_POLICY", "active"}}) == "OMP_WAIT_POLICY=active");
}

TEST_CASE("the CPUs of the affinity mask compute, however OpenMP binds its threads", "[program]") {
  const TemporaryDirectory directory;
  const auto found = [&](std::map<std::string, std::string> variables) {
    variables["OMP_NUM_THREADS"] = "1000";
    const Outcome outcome = launch({.arguments = {"env", "--json"},
                                    .directory = directory.path().string(),
                                    .environment = std::move(variables)});
    const auto environment = nlohmann::json::parse(outcome.out);
    const int cpus = environment["cpu"]["logical_cpus"];
    CHECK(environment["threads"] == std::min(cpus, cpu::usable_cpus()));
    return cpus;
  };
  const int available = cpu::available_cpus();
  CHECK(found({}) == available);
  CHECK(found({{"OMP_PROC_BIND", "close"}}) == available);
  CHECK(found({{"OMP_PLACES", "cores"}}) == available);

  cpu_set_t all, first;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  int number = 0;
  while (!CPU_ISSET(number, &all)) ++number;
  CHECK(found({{"OMP_PLACES", "{" + std::to_string(number) + "}"}}) == 1);
  CPU_ZERO(&first);
  CPU_SET(number, &first);
  REQUIRE(::sched_setaffinity(0, sizeof first, &first) == 0);
  const int alone = found({}), bound = found({{"OMP_PROC_BIND", "true"}});
  REQUIRE(::sched_setaffinity(0, sizeof all, &all) == 0);
  CHECK(alone == 1);
  CHECK(bound == 1);
}
