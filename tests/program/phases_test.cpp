// Tasks with several phases and with carried state in the training loop: families of tests/tiny.
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

// A configuration of a task, with short runs.
Json config_of(const std::string& task) {
  return {{"task", task},
          {"data", {{"batch_size", 4}, {"batches", 12}}},
          {"epochs", 2},
          {"optimizer", {{"name", "adam"}, {"lr", 0.01}}},
          {"tensorboard", false}};
}

class Tiny : public Project {
 public:
  explicit Tiny(const std::string& task, const Json& patch = Json::object())
      : Project(config_of(task), patch, tandem::test::tiny_program_path()) {}
  // With a line a loss in `file`, see tests/tiny.
  void must_trace(const std::string& name, const std::vector<std::string>& more,
                  const std::string& file) const {
    tandem::testing::must(train(name, more, {}, {{"TINY_TRACE", file}}));
  }
};

// Bytes of the tensors whose names begin with a prefix, in the newest checkpoint.
std::string tensors_of(const fs::path& run, const std::string& prefix) {
  const std::string file = saved(run, "state");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const Json header = Json::parse(file.substr(sizeof length, length));
  std::string bytes;
  for (const auto& [name, entry] : header.items()) {
    if (!name.starts_with(prefix)) continue;
    const std::size_t first = entry["data_offsets"][0], last = entry["data_offsets"][1];
    bytes += name + file.substr(sizeof length + length + first, last - first);
  }
  return bytes;
}

}  // namespace

TEST_CASE("an iteration is a step of each phase, with optimizers by name", "[program][phases]") {
  const Tiny tiny("pair", {{"optimizers", {{"second", {{"name", "sgd"}, {"lr", 0.05}}}}}});
  tiny.must_train("run");
  const auto first = tiny.events("run", "step", "first"), second = tiny.events("run", "step", "second");
  REQUIRE(first.size() == 24);
  REQUIRE(second.size() == 24);
  CHECK(first.front()["lr"] == 0.01);
  CHECK(second.front()["lr"] == 0.05);
  CHECK(first.back()["step"] == 24);
  CHECK(first.back()["loss"].get<double>() < first.front()["loss"].get<double>());
  CHECK_THAT(tensors_of(tiny / "run", "first.moment"), !Catch::Equals(""));
  CHECK(tensors_of(tiny / "run", "second.moment").empty());  // sgd without momentum
  CHECK_THAT(read_text(tiny / "run/metrics.csv"), Catch::StartsWith("step,phase,applied,"));

  // The phases hold their own: training of the first is the same whoever trains beside it.
  tiny.must_train("other", {"optimizers.second.lr=0.5"});
  CHECK(tensors_of(tiny / "run", "first.") == tensors_of(tiny / "other", "first."));
  CHECK(tensors_of(tiny / "run", "second.") != tensors_of(tiny / "other", "second."));
}

TEST_CASE("a poisoned step of one phase skips that phase alone", "[program][phases]") {
  const Tiny tiny("pair", {{"optimizers", {{"second", {{"name", "sgd"}, {"lr", 0.05}}}}}});
  for (const auto& [precision, scope] : std::vector<std::pair<std::string, std::string>>{
           {"fp32", ""}, {"amp_fp16", "global"}, {"amp_fp16", "optimizer"}, {"amp_fp16", "loss"}}) {
    INFO(precision << " " << scope);
    std::vector<std::string> common{"precision=" + precision, "epochs=1"};
    if (!scope.empty())
      common.push_back(R"(precision.scaler={"mode": "dynamic", "scope": ")" + scope + "\"}");
    const std::string clean = "clean-" + precision + scope, poisoned = "poisoned-" + precision + scope;
    tiny.must_train(clean, common);
    common.emplace_back("data.poisoned=5");
    tiny.must_train(poisoned, common);
    const auto first = tiny.events(poisoned, "step", "first"),
               second = tiny.events(poisoned, "step", "second");
    CHECK(first.back()["skipped"] == 0);
    CHECK(first.back()["applied"] == 12);
    CHECK(second.back()["skipped"] == 1);
    CHECK(second.back()["applied"] == 11);
    CHECK(second[5]["skipped"] == 1);
    // One scale for both falls for both, a scale of its own for its owner alone.
    if (scope == "global") CHECK(first[6]["loss_scale"] == first[5]["loss_scale"].get<double>() / 2);
    if (scope == "optimizer") {
      CHECK(first[6]["loss_scale"] == first[5]["loss_scale"]);
      CHECK(second[6]["loss_scale"] == second[5]["loss_scale"].get<double>() / 2);
    }
    CHECK(tiny.events(poisoned, "end").back()["skipped"] == 1);
    // Nothing but the skipped step is another one: the first network ends with the same masters and moments.
    CHECK(tensors_of(tiny / clean, "first.master") == tensors_of(tiny / poisoned, "first.master"));
    CHECK(tensors_of(tiny / clean, "first.moment") == tensors_of(tiny / poisoned, "first.moment"));
  }
}

TEST_CASE("a step of a phase that overflows is retried in its place", "[program][phases]") {
  const Tiny tiny("pair", {{"epochs", 1}});
  const std::vector<std::string> common{"precision=amp_fp16", "precision.diagnose=2"};
  auto with = common, plain = common;
  with.insert(with.end(), {"precision.on_skip=retry",
                           R"(precision.scaler={"initial": 1073741824, "ceiling": 1073741824})"});
  tiny.must_train("retried", with);
  const auto first = tiny.events("retried", "step", "first"),
             second = tiny.events("retried", "step", "second");
  CHECK(first.back()["skipped"].get<int>() + second.back()["skipped"].get<int>() > 0);
  CHECK(first.back()["applied"] == 12);
  CHECK(second.back()["applied"] == 12);
  REQUIRE(tiny.events("retried", "overflow").size() == 2);
  CHECK(tiny.events("retried", "overflow").front()["cause"] == "scale");
  // No batch was lost, and scales are powers of two: the same training as at a scale that never overflows.
  plain.emplace_back(R"(precision.scaler={"static": 1024})");
  tiny.must_train("plain", plain);
  CHECK(tensors_of(tiny / "retried", "first.master") == tensors_of(tiny / "plain", "first.master"));
  CHECK(tensors_of(tiny / "retried", "second.master") == tensors_of(tiny / "plain", "second.master"));
}

TEST_CASE("a run of several phases goes on to the bit", "[program][phases]") {
  const std::string scaler = R"(precision.scaler={"mode": "dynamic", "initial": 1024, "interval": 5})";
  const Tiny tiny("pair",
                  {{"checkpoint", {{"every_steps", 1}}}, {"ema", {{"decay", 0.9}}}, {"accumulate", 3}});
  for (const std::string precision : {"fp32", "amp_fp16"}) {
    std::vector<std::string> common{"precision=" + precision, "epochs=40"};
    if (precision == "amp_fp16") common.push_back(scaler);
    tiny.check_goes_on("-" + precision, common, 7);
    // Killed wherever it happens to be, three times.
    const std::string killed = "killed-" + precision;
    tiny.train_killed(killed, common, 2000, 20000);
    CHECK(tiny.same_end("whole-" + precision, killed));
    CHECK(tiny.events(killed, "step").size() == tiny.events("whole-" + precision, "step").size());
  }
  // From FP32 masters into another precision, as with one phase.
  tiny.must_train("changed", {"--limit-steps", "5"});
  const Outcome changed = tiny.run({"train", "changed", "precision=amp_bf16"});
  INFO(changed.err << changed.out);
  CHECK(changed.exit_code == 0);
}

TEST_CASE("carried state belongs to the position in the data", "[program][phases]") {
  const Tiny tiny("stream", {{"checkpoint", {{"every_steps", 1}}}});
  const auto check_chain = [&](const std::string& file, int attempts) {
    const auto lines = json_lines(tiny / file);
    std::map<std::int64_t, double> before;
    double carried = 0.0;
    std::int64_t number = -1;
    int again = 0;
    for (const Json& line : lines) {
      const std::int64_t now = line["number"];
      if (now == number) {  // done again: from what it began with
        ++again;
        CHECK(line["before"] == before[now]);
      } else {
        CHECK(line["before"].get<double>() == (now == 0 ? 0.0 : carried));
      }
      before[now] = line["before"];
      carried = line["after"];
      number = now;
    }
    CHECK(again == attempts);
    CHECK(number == 11);
  };
  tiny.must_trace("plain", {}, "plain.trace");
  check_chain("plain.trace", 0);
  CHECK(json_lines(tiny / "plain.trace").size() == 24);

  // A skipped step moves it on; one that is retried starts from what it began with.
  const std::string high = R"(precision.scaler={"initial": 1073741824, "ceiling": 1073741824})";
  tiny.must_trace("dropped", {"precision=amp_fp16", "precision.diagnose=0", high}, "dropped.trace");
  const int skipped = tiny.events("dropped", "end").back()["skipped"];
  CHECK(skipped > 0);
  check_chain("dropped.trace", 0);
  tiny.must_trace("retried", {"precision=amp_fp16", "precision.diagnose=0", "precision.on_skip=retry", high},
                  "retried.trace");
  check_chain("retried.trace", tiny.events("retried", "end").back()["skipped"]);
  tiny.must_train("fixed", {"precision=amp_fp16", R"(precision.scaler={"static": 1024})"});
  CHECK(tensors_of(tiny / "retried", "master") == tensors_of(tiny / "fixed", "master"));

  // A checkpoint holds it, within an epoch and within an accumulated step.
  const std::vector<std::string> several{"accumulate=2"};
  tiny.must_train("whole", several);
  auto part = several;
  part.insert(part.end(), {"--limit-steps", "4"});
  tiny.must_train("parts", part);
  CHECK_FALSE(tensors_of(tiny / "parts", "carry.h").empty());
  tiny.must({"train", "--resume", "parts", "-q"});
  CHECK(tiny.same_end("whole", "parts"));

  const std::vector<std::string> longer{"epochs=40"};
  tiny.must_train("long", longer);
  tiny.train_killed("killed", longer, 2000, 20000);
  CHECK(tiny.same_end("long", "killed"));
}

TEST_CASE("every command takes a task of several phases", "[program][phases]") {
  const Tiny tiny("pair");
  tiny.must_train("run", {"tensorboard=true"});
  tiny.check_commands({{"ls", "keys"}});
  CHECK_THAT(tiny.run({"train", "config.json", "--dry-run"}).out,
             Contains("loss of the first") && Contains("loss of the second"));
}

TEST_CASE("pictures of evaluations are kept, shown in the report and in TensorBoard", "[program][phases]") {
  const Tiny tiny("pair", {{"tensorboard", true}, {"epochs", 3}});
  tiny.must_train("run");
  const std::string pixel = read_text(tiny / "run/pictures/pixel-test-0001.png");
  CHECK(pixel.size() > 60);
  CHECK(read_text(tiny / "run/pictures/pixel-test-0003.png") == pixel);
  const auto pictures = tiny.events("run", "picture");
  REQUIRE(pictures.size() == 3);
  CHECK(pictures[1]["file"] == "pictures/pixel-test-0002.png");
  CHECK(pictures[1]["step"] == 24);
  std::string events;
  for (const auto& entry : fs::directory_iterator(tiny / "run/tensorboard"))
    events += read_text(entry.path());
  CHECK(events.find(pixel) != std::string::npos);
  CHECK(events.find("first/loss") != std::string::npos);
  tiny.must({"report", "run"});
  const std::string page = read_text(tiny / "run/report.html");
  CHECK_THAT(page, Contains("data:image/png;base64,iVBORw0KGgo") && Contains("after epoch 3"));
  CHECK_THAT(page, Contains(">second</li>"));

  // Gone on with before the last one: it is written again, once.
  tiny.must_train("parts", {"--limit-steps", "30"});
  tiny.must({"train", "--resume", "parts", "-q"});
  CHECK(tiny.events("parts", "picture").size() == 3);
}

TEST_CASE("errors of phases are one line", "[program][phases]") {
  const Tiny tiny("pair");
  const auto refused = [&](const std::string& change) { return tiny.refused_to_train({change}); };
  CHECK_THAT(refused(R"(optimizers={"secnod": "adam"})"),
             Contains("optimizers.secnod: no trained part has this name, did you mean \"second\"?") ||
                 Contains("\"second\""));
  CHECK_THAT(refused(R"(optimizers={"second": {"name": "adam", "momentum": 0.9}})"), Contains("momentum"));
  CHECK_THAT(refused("parts=shared"), Contains("phases first and second both train first.weight"));
  CHECK_THAT(refused("parts=none"), Contains("second: it has no parameter to train"));
  CHECK_THAT(refused(R"(init_from.freeze=first)"), Contains("init_from.path"));
}
