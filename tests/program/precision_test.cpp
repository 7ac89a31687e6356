// Mixed precision as a user turns it on: one key.
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

Outcome train(const TemporaryDirectory& directory, const std::string& run, const std::string& precision,
              std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"train", "digits_lenet", "run_dir=" + run, "precision=" + precision};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tandem_in(directory, arguments);
}

std::vector<json> events(const TemporaryDirectory& directory, const std::string& run,
                         const std::string& kind) {
  std::vector<json> found;
  for (const json& line : json_lines(directory.path() / run / "metrics.jsonl")) {
    if (line["event"] == kind) found.push_back(line);
  }
  return found;
}

std::string weights(const TemporaryDirectory& directory, const std::string& run) {
  return read_text(directory.path() / run / "checkpoints" / "last.safetensors");
}

}  // namespace

TEST_CASE("one key trains in mixed precision", "[program]") {
  const TemporaryDirectory directory;
  for (const std::string precision : {"amp_bf16", "amp_fp16", R"({"level":"O2","dtype":"fp16"})"}) {
    INFO(precision);
    const Outcome outcome = train(directory, "run", precision, {"epochs=6"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    if (precision != "amp_bf16") CHECK_THAT(outcome.err, Contains("FP16 is emulated"));
    CHECK(events(directory, "run", "end")[0]["metrics"]["accuracy"].get<double>() > 0.93);
    const Outcome again = train(directory, "again", precision, {"epochs=6"});
    CHECK(weights(directory, "run") == weights(directory, "again"));
    std::filesystem::remove_all(directory.path() / "run");
    std::filesystem::remove_all(directory.path() / "again");
  }
}

TEST_CASE("the weights that are saved are the FP32 masters, whatever computed them", "[program]") {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, "run", "amp_fp16", {"epochs=2"}).exit_code == 0);
  const Outcome outcome = tandem_in(directory, {"eval", "run"});
  REQUIRE(outcome.exit_code == 0);
  const double accuracy = events(directory, "run", "end")[0]["metrics"]["accuracy"];
  CHECK_THAT(outcome.out, Contains(fmt::format("accuracy {:.4f}", accuracy)));
}

TEST_CASE("an overflow is named: op, tensor, index, and whose fault it is", "[program]") {
  const TemporaryDirectory directory;
  const std::string scaler = R"("scaler":{"initial":16777216})";
  REQUIRE(
      train(directory, "drop", R"({"level":"O1","dtype":"fp16",)" + scaler + "}", {"epochs=1"}).exit_code ==
      0);
  const auto overflows = events(directory, "drop", "overflow");
  REQUIRE(overflows.size() == 3);
  CHECK(overflows[0]["step"] == 1);
  CHECK(overflows[0]["loss_scale"] == 16777216.0);
  CHECK(overflows[0]["op"] == "cross_entropy");
  CHECK(overflows[0]["where"] == "backward");
  CHECK(overflows[0]["cause"] == "scale");
  CHECK(overflows[1]["loss_scale"] == 8388608.0);
  const json end = events(directory, "drop", "end")[0];
  CHECK(end["skipped"].get<int>() >= 3);
  CHECK(end["applied"].get<int>() + end["skipped"].get<int>() == 45);

  // A retry loses no batch: as many steps are applied as the epoch has.
  REQUIRE(train(directory, "retry",
                R"({"level":"O1","dtype":"fp16","on_skip":"retry","diagnose":0,)" + scaler + "}",
                {"epochs=1"})
              .exit_code == 0);
  const json retried = events(directory, "retry", "end")[0];
  CHECK(retried["applied"] == 45);
  CHECK(retried["skipped"].get<int>() >= 3);
  CHECK(events(directory, "retry", "overflow").empty());
}

TEST_CASE("steps that are skipped without end stop the run, with the cause", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      train(directory, "run",
            R"({"level":"O1","dtype":"fp16","max_skips":4,"scaler":{"initial":16777216,"backoff":0.999}})",
            {"epochs=1"});
  CHECK(outcome.exit_code == 1);
  CHECK_THAT(outcome.err, Contains("4 steps in a row were skipped") && Contains("loss scale is the cause"));
  CHECK(events(directory, "run", "end")[0]["status"] == "failed");
}

TEST_CASE("what mixed precision cannot do is refused with the reason", "[program]") {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& precision, const std::string& reason) {
    const Outcome outcome = train(directory, "run", precision);
    INFO(precision);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, Contains(reason));
    CHECK_FALSE(std::filesystem::exists(directory.path() / "run"));
  };
  refused(R"({"level":"O1","lists":{"allow":["relo"]}})", "relu");
  refused(R"({"level":"O1","layers":{"nowhere":"fp32"}})", "matches none");
  refused(R"({"level":"O1","dtype":"fp8"})", "fp16");
  refused("amp_fp61", "amp_fp16");
}
