// What the machine can do: models that do not fit it, and more threads than it has CPUs for.
#include "core/cpu/cpu_features.h"
#include "tests/program/support.h"

using namespace tandem;
using namespace tandem::testing;
using Catch::Contains;

namespace {

const std::string kHuge = R"(model={"name":"mlp","hidden":[16777216,16777216]})";  // 2^48 weights: 1 PiB

Outcome with_threads(const TemporaryDirectory& directory, const std::string& count,
                     std::vector<std::string> arguments) {
  return launch({.arguments = std::move(arguments),
                 .directory = directory.path().string(),
                 .environment = {{"OMP_NUM_THREADS", count}}});
}

std::string computed_with(int usable) {
  return "this process may use " + std::to_string(usable) + " CPUs, so that many threads compute";
}

}  // namespace

TEST_CASE("a model that cannot fit is refused at once, with advice that helps", "[program]") {
  const TemporaryDirectory directory;
  for (const char* command : {"validate", "train"}) {
    const Outcome outcome = tandem_in(directory, {command, "digits_mlp", kHuge});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(line_count(outcome.err) == 1);
    for (const char* part : {"command line: model: training its", "masters 1", "fewer units or layers",
                             "2.weight [16777216,16777216]", "A smaller batch does not help"})
      CHECK_THAT(outcome.err, Contains(part));
  }
  CHECK_FALSE(std::filesystem::exists(directory.path() / "runs"));
  const Outcome batch = tandem_in(
      directory, {"validate", "resnet50_synthetic", "data.train_size=1000000", "data.batch_size=1000000"});
  CHECK(batch.exit_code == 2);
  CHECK_THAT(batch.err,
             Contains("data.batch_size: a step on 1000000 samples takes") && Contains("accumulate"));
}

TEST_CASE("validate and summary say what a model takes without taking it", "[program]") {
  const TemporaryDirectory directory;
  const Outcome valid = tandem_in(directory, {"validate", "resnet50_synthetic", "data.batch_size=2"});
  CHECK(valid.exit_code == 0);
  CHECK_THAT(valid.out, Contains("valid\n25557032 parameters") && Contains("masters 97.5 MiB") &&
                            Contains("gradients 97.5 MiB") && Contains("on 2 samples"));
  const Outcome summary = tandem_in(directory, {"summary", "digits_mlp", kHuge});
  CHECK(summary.exit_code == 0);
  CHECK_THAT(summary.out, Contains("28147625") && Contains("this machine cannot hold the model"));
}

TEST_CASE("no more threads compute than there are CPUs to use", "[program]") {
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
  CHECK_THAT(with_threads(directory, "1", train).err, !Contains("threads compute"));

  auto configured = train;
  configured.emplace_back("threads=1024");
  const Outcome trained = tandem_in(directory, configured);
  CHECK(trained.exit_code == 0);
  CHECK_THAT(trained.err, Contains("threads=1024: " + computed_with(usable)));
}
