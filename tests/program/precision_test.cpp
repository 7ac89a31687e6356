// Mixed precision by one key.
#include <algorithm>
#include <set>

#include "core/convert.h"
#include "files/safetensors.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

Outcome train(const TemporaryDirectory& directory, const std::string& run, const std::string& precision,
              const std::vector<std::string>& more = {}) {
  return tandem_in(directory,
                   joined({"train", "digits_lenet", "run_dir=" + run, "precision=" + precision}, more));
}

std::string weights(const TemporaryDirectory& directory, const std::string& run) {
  return saved(directory.path() / run, "weights");
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
    CHECK(end_of(directory / "run")["metrics"]["accuracy"].get<double>() > 0.93);
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
  const double accuracy = end_of(directory / "run")["metrics"]["accuracy"];
  CHECK_THAT(outcome.out, Contains(fmt::format("accuracy {:.4f}", accuracy)));
}

TEST_CASE("an overflow is named: op, tensor, index, and whose fault it is", "[program]") {
  const TemporaryDirectory directory;
  const std::string scaler = R"("scaler":{"initial":16777216})";
  REQUIRE(
      train(directory, "drop", R"({"level":"O1","dtype":"fp16",)" + scaler + "}", {"epochs=1"}).exit_code ==
      0);
  const auto overflows = events_of(directory / "drop", "overflow");
  REQUIRE(overflows.size() == 3);
  CHECK(overflows[0]["step"] == 1);
  CHECK(overflows[0]["loss_scale"] == 16777216.0);
  CHECK(overflows[0]["op"] == "cross_entropy");
  CHECK(overflows[0]["where"] == "backward");
  CHECK(overflows[0]["cause"] == "scale");
  CHECK(overflows[1]["loss_scale"] == 8388608.0);
  const json end = end_of(directory / "drop");
  CHECK(end["skipped"].get<int>() >= 3);
  CHECK(end["applied"].get<int>() + end["skipped"].get<int>() == 45);

  // A retry loses no batch: as many steps are applied as the epoch has.
  REQUIRE(train(directory, "retry",
                R"({"level":"O1","dtype":"fp16","on_skip":"retry","diagnose":0,)" + scaler + "}",
                {"epochs=1"})
              .exit_code == 0);
  const json retried = end_of(directory / "retry");
  CHECK(retried["applied"] == 45);
  CHECK(retried["skipped"].get<int>() >= 3);
  CHECK(events_of(directory / "retry", "overflow").empty());
}

TEST_CASE("a step that is retried past a multiple is logged and saved for it", "[program]") {
  const TemporaryDirectory directory;
  const auto run = [&](const std::string& name, int every) {
    const Outcome outcome =
        train(directory, name, "amp_fp16",
              {"precision.scaler.initial=16777216", "precision.scaler.interval=5", "precision.on_skip=retry",
               "epochs=1", "checkpoint.every_steps=" + std::to_string(every), "checkpoint.keep=100",
               "log_every=" + std::to_string(every)});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    std::vector<std::int64_t> steps;
    for (const json& event : events_of(directory / name, "step")) steps.push_back(event["step"]);
    return steps;
  };
  const std::vector<std::int64_t> all = run("all", 1);
  const std::int64_t every = 3, last = all.back();
  REQUIRE(all.size() < static_cast<std::size_t>(last));
  // For each multiple the first step that ended there or beyond.
  std::set<std::int64_t> expected;
  for (std::int64_t multiple = every; multiple <= last; multiple += every)
    expected.insert(*std::lower_bound(all.begin(), all.end(), multiple));
  REQUIRE(
      std::any_of(expected.begin(), expected.end(), [&](std::int64_t step) { return step % every != 0; }));
  const std::vector<std::int64_t> logged = run("some", every);
  CHECK(std::set<std::int64_t>(logged.begin(), logged.end()) == expected);
  expected.insert(last);  // at the end of the epoch
  std::set<std::int64_t> saved;
  for (const json& event : events_of(directory / "some", "checkpoint"))
    saved.insert(event["step"].get<std::int64_t>());
  CHECK(saved == expected);
}

TEST_CASE("steps that are skipped without end stop the run, with the cause", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      train(directory, "run",
            R"({"level":"O1","dtype":"fp16","max_skips":4,"scaler":{"initial":16777216,"hysteresis":100}})",
            {"epochs=1"});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(outcome.err, Contains("4 steps in a row were skipped") && Contains("loss scale is the cause"));
  CHECK(end_of(directory / "run")["status"] == "diverged");

  const Outcome at_floor =
      train(directory, "floor",
            R"({"level":"O1","dtype":"fp16","scaler":{"initial":16777216,"floor":8388608}})", {"epochs=1"});
  CHECK(at_floor.exit_code == 3);
  CHECK_THAT(at_floor.err,
             Contains("a loss scale of 8388608, the lowest there is") && Contains("loss scale is the cause"));

  const Outcome fixed =
      train(directory, "static",
            R"({"level":"O1","dtype":"fp16","max_skips":4,"scaler":{"static":16777216}})", {"epochs=1"});
  CHECK(fixed.exit_code == 3);
  CHECK_THAT(fixed.err, Contains("4 steps in a row were skipped") && Contains("loss scale is the cause") &&
                            Contains("use a lower static scale"));
  CHECK(events_of(directory / "static", "overflow").size() == 4);

  // FP32 counts the steps that it skips in the same way.
  const Outcome wide = train(directory, "wide", R"({"level":"O0","max_skips":4})",
                             {"epochs=1", "optimizer.lr=1e6", "on_divergence=continue"});
  CHECK(wide.exit_code == 3);
  CHECK_THAT(wide.err, Contains(": 4 steps in a row were skipped (precision.max_skips): their gradients"));

  // Fewer steps than max_skips: a run that learnt nothing is no success.
  const Outcome nothing =
      train(directory, "nothing", R"({"dtype":"fp16","scaler":{"static":16777216}})", {"epochs=1"});
  CHECK(nothing.exit_code == 1);
  CHECK_THAT(nothing.err, Contains("all 45 steps were skipped"));
  CHECK(end_of(directory / "nothing")["status"] == "failed");
  CHECK(events_of(directory / "nothing", "overflow").size() == 3);

  // A loss that is not finite is not retried: a lower scale does not help.
  const Outcome diverged =
      train(directory, "diverged", R"({"dtype":"fp16","on_skip":"retry"})", {"epochs=1", "optimizer.lr=1e6"});
  CHECK(diverged.exit_code == 3);
  CHECK_THAT(diverged.err,
             Contains("try a lower optimizer.lr") && !Contains("-nan") && Contains("the model is the cause"));
  CHECK(events_of(directory / "diverged", "overflow").size() == 1);
}

TEST_CASE("weights without masters stay on the grid of their type", "[program]") {
  const TemporaryDirectory directory;
  for (const char* rounding : {"nearest", "stochastic"}) {
    const std::string precision = fmt::format(R"({{"level":"O3","dtype":"bf16","rounding":"{}"}})", rounding);
    REQUIRE(train(directory, rounding, precision, {"epochs=1"}).exit_code == 0);
    const tandem::safetensors::File file(
        (newest_checkpoint(directory.path() / rounding) / "weights.safetensors").string());
    for (const auto& entry : file.entries()) {
      if (entry.dtype != "F32") continue;
      CAPTURE(rounding, entry.name);
      for (const float value : file.read(entry).to_vector<float>())
        if (tandem::widen(tandem::convert<tandem::BFloat16>(value)) != value) FAIL(value);
    }
  }
}

TEST_CASE("unsupported mixed precision is refused with the reason", "[program]") {
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
  refused(R"({"level":"O1","lists":{"allow":["relu"],"deny":["relu"]}})", "is listed twice");
  refused(R"({"level":"O1","dtype":"fp16","scaler":{"static":1000}})", "not a power of two");
  refused(R"({"level":"O1","dtype":"fp16","scaler":{"initial":3}})", "the nearest is 4");
  refused(R"({"level":"O1","dtype":"fp16","scaler":{"interval":0}})", "interval");
  refused(R"({"level":"O1","dtype":"fp16","scaler":{"static":64,"interval":5}})", "does not change");
  refused(R"({"level":"O1","dtype":"fp16","scaler":{"mode":"none","initial":64}})", "contradict");
  refused(R"({"level":"O1","dtype":"bf16","scaler":{"initial":64}})", "something runs in fp16");
  refused(R"({"level":"O0","scaler":{"static":64}})", "a scaler with FP32");
  refused(R"({"level":"O0","scaler":"dynamic"})", "a scaler with FP32");
  refused(R"({"level":"O0","masters":"none"})", "FP32 throughout");
  refused(R"({"level":"O0","layers":{"fc1":"fp16"}})", "level O0 is FP32 throughout");
  refused(R"({"level":"O0","lists":{"allow":["softmax"]}})", "level O0 is FP32 throughout");
  refused(R"({"level":"O1","cast":"none"})", "use level O0");
  refused(R"({"dtype":"fp16","scaler":{"static":64},"on_skip":"retry"})", "needs a dynamic loss scale");
  refused(R"({"dtype":"fp16","scaler":{"ceiling":100000}})", "ceiling is 100000, not a power of two");
  refused(R"({"level":"O2","masters":"none"})", "masters are off with O2");
  refused(R"({"level":"O3","masters":"fp32"})", "masters are on with O3");
  refused(R"({"level":"O1","rounding":"stochastic"})", "stochastic rounding");
  refused(R"({"level":"O1","scaler":"deepsped"})", "deepspeed");
  refused("amp_fp61", "amp_fp16");
}
