// tandem plan, and training with a plan.
#include <fstream>

#include "tests/program/ranks.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::vector<std::string> kSmall = {"data.batch_size=8", "model.width=4", "data.image_size=8"};

std::vector<std::string> with_small(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
  return arguments;
}

// A plan of a small network; which types are the faster ones there is for the machine to say.
Outcome make_plan(const TemporaryDirectory& directory, const std::string& file,
                  std::vector<std::string> more = {}) {
  std::vector<std::string> arguments =
      with_small({"plan", "resnet20_synthetic", "--seconds=0.1", "--force", "--out=" + file});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tandem_in(directory, arguments);
}

// `plan`: a file, "auto", or "" for level O1.
std::vector<std::string> training(const std::string& run, const std::string& plan) {
  const std::string planned = R"({"level":"O1","dtype":"bf16","plan":")" + plan + "\"}";
  return with_small({"train", "resnet20_synthetic", "run_dir=" + run, "data.train_size=64",
                     "data.test_size=16", "epochs=2", "precision=" + (plan.empty() ? "amp_bf16" : planned)});
}

bool same_weights(const TemporaryDirectory& directory, const std::string& one, const std::string& other) {
  return saved_tensors(directory.path() / one, "weights") ==
         saved_tensors(directory.path() / other, "weights");
}

json plan_in(const TemporaryDirectory& directory, const std::string& file) {
  return json::parse(read_text(directory.path() / file));
}

}  // namespace

TEST_CASE("plan: ops are measured and given types, the step is predicted and measured", "[program][plan]") {
  const TemporaryDirectory directory;
  const Outcome outcome = make_plan(directory, "plan.json");
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("policy cut") && Contains("predicted") && Contains("measured") &&
                              (Contains("the plan is ") || Contains("the cut was ")) &&
                              Contains("casts of activations: ") && Contains("% of the FLOP of products") &&
                              Contains("plan.json: train with it: tandem train resnet20_synthetic "));
  const json plan = plan_in(directory, "plan.json");
  CHECK(plan["dtype"] == "bf16");
  CHECK(plan["model"]["ops"] == plan["ops"].size());
  CHECK(plan["shapes"]["batch"] == 8);
  for (const char* arm : {"f32", "rules", "plan"}) {
    CHECK(plan["predicted_ns"][arm].get<double>() > 0);
    CHECK(plan["measured_ns"][arm].get<double>() > 0);
  }
  // A strict plan has autocast's among those it is chosen from, and has its types where it measured slower.
  CHECK(plan["predicted_ns"]["plan"].get<double>() <= 1.0001 * plan["predicted_ns"]["rules"].get<double>());
  if (outcome.out.find("the cut was ") == std::string::npos)
    CHECK(plan["predicted_ns"]["plan"].get<double>() <= 1.0001 * plan["predicted_ns"]["f32"].get<double>());

  const Outcome as_json = make_plan(directory, "other.json", {"--json", "--policy=rules", "--dtype=fp16"});
  REQUIRE(as_json.exit_code == 0);
  const json report = json::parse(as_json.out);
  CHECK(report["policy"] == "rules");
  CHECK(report["dtype"] == "f16");
  CHECK(report["written"] == "other.json");
  CHECK(report["flop_share"] == 1.0);
  CHECK(report["casts"].size() == report["casts_of_rules"]);
  CHECK(report["measured"]["rounds"].get<int>() >= 5);
}

TEST_CASE("plan: every policy, pins, and how plans differ", "[program][plan]") {
  const TemporaryDirectory directory;
  REQUIRE(make_plan(directory, "rules.json", {"--policy=rules"}).exit_code == 0);
  for (const char* policy : {"colours", "growth"}) {
    INFO(policy);
    const Outcome made = make_plan(directory, "made.json", {std::string("--policy=") + policy});
    INFO(made.err);
    CHECK(made.exit_code == 0);
    CHECK(plan_in(directory, "made.json")["policy"]["name"] == policy);
  }
  const Outcome same = tandem_in(directory, {"plan", "diff", "rules.json", "rules.json"});
  CHECK(same.exit_code == 0);
  CHECK(same.out == "no difference\n");
  REQUIRE(make_plan(directory, "pinned.json", {"--policy=rules", "--must=^fc=f32"}).exit_code == 0);
  const Outcome differs = tandem_in(directory, {"plan", "diff", "rules.json", "pinned.json"});
  CHECK(differs.exit_code == 1);
  CHECK_THAT(differs.out, Contains("fc linear") && Contains("(rule → must)"));
  CHECK(plan_in(directory, "pinned.json")["policy"]["must"] == json({{"^fc", "f32"}}));
}

TEST_CASE("plan: a search keeps the gradient within a limit", "[program][plan]") {
  const TemporaryDirectory directory;
  const Outcome outcome = make_plan(directory, "plan.json", {"--policy=search", "--limit=0.5", "--json"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const json accuracy = json::parse(outcome.out)["accuracy"];
  CHECK(accuracy["error"].get<double>() <= 0.5);
  CHECK(accuracy["noise"].get<double>() > 0.0);
  const Outcome below = make_plan(directory, "none.json", {"--policy=search", "--limit=1e-12"});
  CHECK(below.exit_code == 2);
  CHECK_THAT(below.err, Contains("one unit in the last place"));
}

TEST_CASE("plan refuses what it cannot plan", "[program][plan]") {
  const TemporaryDirectory directory;
  const auto refused = [&](std::vector<std::string> arguments, const std::string& reason) {
    arguments.insert(arguments.begin(), "plan");
    const Outcome outcome = tandem_in(directory, arguments);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(line_count(outcome.err) == 1);
    CHECK_THAT(outcome.err, Contains(reason));
  };
  refused({}, "give a configuration");
  refused({"resnet20_synthetic", "--limit=0.1"}, "--limit needs --policy search");
  refused({"resnet20_synthetic", "--must=fc"}, "expected an expression and a dtype");
  refused({"dcgan_fashion", "data.batch_size=2",
           R"(precision={"level":"O1","dtype":"fp16","scaler":{"mode":"dynamic","scope":"loss"}})"},
          "computes the 2 losses of the discriminator separately");
  refused({"resnet20_synthetic", R"(precision={"level":"O2","dtype":"bf16"})"},
          "a plan starts from level O1");
  refused({"diff", "one.json", "two.json"}, "one.json");
  refused(with_small({"resnet20_synthetic", "--seconds=0", "--must=nowhere=f32"}),
          "must \"nowhere\" matches none");
}

TEST_CASE("a run follows its plan, keeps it, and goes on with it", "[program][plan]") {
  const TemporaryDirectory directory;
  REQUIRE(make_plan(directory, "plan.json", {"--policy=rules"}).exit_code == 0);
  const Outcome trained = tandem_in(directory, training("run", "plan.json"));
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  CHECK(read_text(directory.path() / "run/plan.json") == read_text(directory.path() / "plan.json"));
  CHECK(events_of(directory.path() / "run", "start").front()["precision"] == "O1/bf16/plan");
  // The cast rules as a plan are level O1.
  REQUIRE(tandem_in(directory, training("autocast", "")).exit_code == 0);
  CHECK(same_weights(directory, "autocast", "run"));

  // Interrupted half way, and gone on with, although the file is no more.
  std::vector<std::string> half = training("half", "plan.json");
  half.emplace_back("--limit-steps=5");
  tandem_in(directory, half);
  std::filesystem::rename(directory.path() / "plan.json", directory.path() / "moved.json");
  const Outcome resumed = tandem_in(directory, {"train", "half"});
  INFO(resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK(same_weights(directory, "half", "run"));
  const Outcome eval = tandem_in(directory, {"eval", "run", "--in-precision"});
  INFO(eval.err);
  CHECK(eval.exit_code == 0);
  // A new run has nowhere to take it from.
  const Outcome gone = tandem_in(directory, training("other", "plan.json"));
  CHECK(gone.exit_code == 2);
  CHECK_THAT(gone.err, Contains("plan.json"));
}

TEST_CASE("a plan of another model, or none, ends a run before its first step", "[program][plan]") {
  const TemporaryDirectory directory;
  REQUIRE(make_plan(directory, "plan.json", {"--policy=rules"}).exit_code == 0);
  const std::string good = read_text(directory.path() / "plan.json");
  const auto refused = [&](const std::string& text, const std::string& reason) {
    directory.write("bad.json", text);
    const Outcome outcome = tandem_in(directory, training("bad", "bad.json"));
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(line_count(outcome.err) == 1);
    CHECK_THAT(outcome.err, Contains(reason));
    CHECK_FALSE(std::filesystem::exists(directory.path() / "bad"));
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  refused("", "is empty");
  refused("{}", "is not a plan");
  refused(good.substr(0, good.size() / 2), "bad.json");
  refused(changed("\"tandem_plan\": 1", "\"tandem_plan\": 2"), "version 2 is unknown");
  refused(changed(R"(["layer1.0.conv1","conv2d",0])", R"(["layer1.0.conv9","conv2d",0])"), "layer1.0.conv9");
  refused(changed(R"(["layer1.0.conv1","conv2d",0])", R"(["layer1.0.conv1","conv3d",0])"), "conv3d");
  refused(changed("sha256:", "sha256:0"), "other layers or rules");
  std::vector<std::string> other = training("bad", "plan.json");
  other.emplace_back("model.name=resnet32");
  const Outcome outcome = tandem_in(directory, other);
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err,
             Contains("in this model (") && Contains("differ); make it again: tandem plan CONFIG"));
  const Outcome fp16 =
      tandem_in(directory, with_small({"train", "resnet20_synthetic", "run_dir=bad",
                                       R"(precision={"level":"O1","dtype":"fp16","plan":"plan.json"})"}));
  CHECK(fp16.exit_code == 2);
  CHECK_THAT(fp16.err, Contains("is for bf16, but precision.dtype is f16"));
}

TEST_CASE("a run makes its plan at the start, and keeps it", "[program][plan]") {
  const TemporaryDirectory directory;
  std::vector<std::string> first = training("run", "auto");
  first.emplace_back("--limit-steps=5");
  const Outcome begun = tandem_in(directory, first);
  INFO(begun.err);
  REQUIRE(std::filesystem::exists(directory.path() / "run/plan.json"));
  CHECK_THAT(begun.err + begun.out, Contains(" ops in bf16; predicted ") && Contains("; measured "));
  const std::string plan = read_text(directory.path() / "run/plan.json");
  REQUIRE(tandem_in(directory, {"train", "run"}).exit_code == 0);
  CHECK(read_text(directory.path() / "run/plan.json") == plan);
  // Its looks at a run follow the run's plan.
  const json casts = json::parse(must(tandem_in(directory, {"inspect", "run", "--casts", "--json"})).out);
  CHECK(casts.dump().find("\"plan\"") != std::string::npos);
  const json ops = json::parse(plan)["ops"];
  if (std::ranges::any_of(ops, [](const json& op) { return op.value("out", "") == "bf16"; })) {
    const json blame = json::parse(must(tandem_in(directory, {"inspect", "run", "--blame", "--json"})).out);
    CHECK(blame["ops"].size() > 0);
  }
  const Outcome bench =
      tandem_in(directory, with_small({"bench", "resnet20_synthetic",
                                       R"(precision={"level":"O1","dtype":"bf16","plan":"auto"})"}));
  CHECK(bench.exit_code == 2);
  CHECK_THAT(bench.err, Contains("auto works only in `tandem train`"));
}

TEST_CASE("a plan has the loss scale that was calibrated, and a run under it starts there",
          "[program][plan]") {
  const TemporaryDirectory directory;
  const auto fp16 = [](const std::string& more) {
    return R"(precision={"level":"O1","dtype":"fp16","scaler":"calibrated")" + more + "}";
  };
  const std::vector<std::string> samples = {"data.train_size=64", "data.test_size=16"};
  const Outcome planned =
      make_plan(directory, "plan.json", {samples[0], samples[1], fp16(""), "--policy=rules"});
  INFO(planned.err);
  REQUIRE(planned.exit_code == 0);
  CHECK_THAT(planned.out, Contains("loss scale: calibrated on 4 batches in FP32: window "));
  json plan = plan_in(directory, "plan.json");
  const json window = plan["scale"]["window"];
  CHECK(plan["scale"]["start"] == window[1]);
  const auto trained = [&](const std::string& run, const std::string& more) {
    return must(tandem_in(directory, with_small({"train", "resnet20_synthetic", "run_dir=" + run, samples[0],
                                                 samples[1], "epochs=1", "--limit-steps=4", fp16(more)})));
  };
  const auto scale_of = [&](const std::string& run) {
    return json::parse(
        must(tandem_in(directory, {"inspect", run, "--headroom", "--json"})).out)["log2_scale"];
  };
  // What the plan found is what a run finds that looks itself.
  trained("looked", "");
  CHECK(json::parse(read_text(directory.path() / "looked/calibration.json"))["window"] == window);
  plan["scale"]["start"] = window[1].get<int>() - 2;
  std::ofstream(directory.path() / "plan.json") << plan.dump();
  const Outcome told = trained("told", R"(,"plan":"plan.json")");
  CHECK_THAT(told.out + told.err, Contains("from the plan"));
  CHECK_FALSE(std::filesystem::exists(directory.path() / "told/calibration.json"));
  CHECK(scale_of("told").get<int>() == window[1].get<int>() - 2);
  CHECK_FALSE(plan_in(directory, "told/plan.json")["scale"].is_null());
  const Outcome resumed = must(tandem_in(directory, {"train", "told"}));
  CHECK_THAT(resumed.out + resumed.err, !Contains("from the plan"));
  // Another batch has other gradients.
  std::vector<std::string> wider =
      with_small({"train", "resnet20_synthetic", "run_dir=other", samples[0], samples[1], "epochs=1",
                  "--limit-steps=2", fp16(R"(,"plan":"plan.json")")});
  wider.emplace_back("data.batch_size=16");
  const Outcome other = must(tandem_in(directory, wider));
  CHECK_THAT(other.out + other.err, !Contains("from the plan") && Contains("calibrated on 4 batches"));
  // It says no more about types than a plan without one.
  plan.erase("scale");
  std::ofstream(directory.path() / "bare.json") << plan.dump();
  const Outcome difference = tandem_in(directory, {"plan", "diff", "plan.json", "bare.json"});
  CHECK(difference.exit_code == 0);
  CHECK_THAT(difference.out, Contains("loss scale: 2^") && Contains(" → none"));
}

TEST_CASE("ranks follow one plan", "[program][plan][ranks]") {
  if (const std::string why = why_no_ranks(); !why.empty()) {
    WARN(why);
    return;
  }
  const TemporaryDirectory directory;
  REQUIRE(make_plan(directory, "plan.json", {"--policy=rules"}).exit_code == 0);
  const Outcome planned = run_ranks(directory, 2, training("planned", "plan.json"));
  INFO(planned.err);
  REQUIRE(planned.exit_code == 0);
  REQUIRE(run_ranks(directory, 2, training("autocast", "")).exit_code == 0);
  CHECK(same_weights(directory, "autocast", "planned"));
  const Outcome made = run_ranks(directory, 2, training("made", "auto"));
  CHECK(made.exit_code == 2);
  CHECK_THAT(made.err, Contains("make the plan before, in one process"));
}
