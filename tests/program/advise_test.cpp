// tandem advise, warnings of a 16-bit run before its first step, blame and headroom, and calibrated loss
// scales.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

const std::vector<std::string> kTiny = {"data.batch_size=8",  "model.width=4",     "data.image_size=8",
                                        "data.train_size=64", "data.test_size=16", "epochs=1"};

std::vector<std::string> with_tiny(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kTiny.begin(), kTiny.end());
  return arguments;
}

}  // namespace

TEST_CASE("advise: bounds, sizes, batch, the whole step, and the lint", "[program][advise]") {
  const TemporaryDirectory directory;
  const Outcome outcome = tandem_in(directory, with_tiny({"advise", "resnet20_synthetic", "--seconds=0.1"}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("a step of ") && Contains("bound") && Contains("batch 8:") &&
                              Contains("(Amdahl)") && Contains("add up to whole steps within") &&
                              Contains("lint: bf16 can represent all values"));
  const json advice =
      json::parse(must(tandem_in(directory, with_tiny({"advise", "resnet20_synthetic", "--seconds=0.1",
                                                       "--json", "precision=amp_fp16"})))
                      .out);
  CHECK(advice["dtype"] == "f16");
  const json& step = advice["step"];
  CHECK(step["compute"].get<double>() + step["memory"].get<double>() + step["overhead"].get<double>() ==
        Approx(1.0));
  CHECK(step["bound"].get<double>() > 1.0);
  CHECK(advice["worst"].size() == 3);
  CHECK(advice["lint"].empty());
  int products = 0;
  for (const json& op : advice["ops"]) products += op.contains("product");
  CHECK(products == 22);  // 19 convolutions, two in shortcuts, and a linear layer
  double before = INFINITY;
  for (const json& change : advice["changes"]) {
    CHECK(change["saved_us"].get<double>() > 0.0);
    CHECK(change["saved_us"].get<double>() <= before);
    CHECK(change["added_bytes"].get<int>() > 0);
    before = change["saved_us"];
  }
}

TEST_CASE("advise: mistakes are told before anything is measured", "[program][advise]") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      tandem_in(directory, {"advise", "resnet20_synthetic", R"(precision={"level":"O2","dtype":"bf16"})"});
  CHECK(outcome.exit_code == 2);
  CHECK(tandem_in(directory, {"advise"}).exit_code == 2);
}

TEST_CASE("a 16-bit run says what does not fit, changes no bit by it, and is quiet otherwise",
          "[program][lint]") {
  const TemporaryDirectory directory;
  const auto train = [&](const std::string& run, std::vector<std::string> more) {
    std::vector<std::string> arguments{"train", "digits_mlp", "run_dir=" + run, "--limit-steps=3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return must(tandem_in(directory, arguments));
  };
  const std::string large = R"(data.augment=[{"name":"normalise","mean":[0.0],"std":[0.0007]}])";
  const Outcome told = train("large", {"precision=amp_fp16", large});
  CHECK_THAT(told.out + told.err, Contains("warning: ") && Contains("below overflow in f16"));
  for (const char* precision : {"amp_fp16", "amp_bf16", "fp32"}) {
    const Outcome quiet = train(precision, {std::string("precision=") + precision});
    CHECK_THAT(quiet.out + quiet.err, !Contains("warning"));
  }
  const Outcome wide = train("wide", {"precision=fp32", large});
  CHECK_THAT(wide.out + wide.err, !Contains("warning"));
}

TEST_CASE("inspect --blame and --headroom, of a configuration and of a run", "[program][blame]") {
  const TemporaryDirectory directory;
  must(tandem_in(directory, {"train", "digits_mlp", "run_dir=run", "epochs=1", "precision=amp_fp16"}));
  const json blame = json::parse(must(tandem_in(directory, {"inspect", "run", "--blame", "--json"})).out);
  CHECK(blame["scale"] == 65536.0);
  CHECK(blame["ops"].size() >= 2);
  CHECK(blame["error"].get<double>() > 0.0);
  CHECK_THAT(must(tandem_in(directory, {"inspect", "digits_mlp", "precision=amp_bf16", "--blame"})).out,
             Contains("own error") && Contains("rounding"));
  const json headroom =
      json::parse(must(tandem_in(directory, {"inspect", "run", "--headroom", "--json"})).out);
  CHECK(headroom["log2_scale"] == 16);
  for (const json& layer : headroom["layers"]) CHECK(layer["bits"].is_number_integer());
  CHECK_THAT(must(tandem_in(directory, {"inspect", "run", "--headroom"})).out, Contains("bits left"));
  CHECK(tandem_in(directory, {"inspect", "run", "--headroom", "--blame"}).exit_code == 2);
  CHECK(tandem_in(directory, {"inspect", "digits_mlp", "precision=fp32", "--blame"}).exit_code == 2);
}

TEST_CASE("a calibrated loss scale: found once, kept by the run, refused where nothing fits",
          "[program][calibrated]") {
  const TemporaryDirectory directory;
  const std::string fp16 = R"(precision={"level":"O1","dtype":"fp16","scaler":"calibrated"})";
  const Outcome first = must(
      tandem_in(directory, {"train", "digits_mlp", "run_dir=run", "epochs=2", "--limit-steps=10", fp16}));
  CHECK_THAT(first.out + first.err, Contains("loss scale: calibrated on 4 batches"));
  const json calibration = json::parse(read_text(directory.path() / "run/calibration.json"));
  const int high = calibration["window"][1];
  CHECK(calibration["window"][0].get<int>() <= high);
  CHECK(calibration["layers"].size() >= 2);
  CHECK_THAT(must(tandem_in(directory, {"inspect", "run"})).out,
             Contains("loss scale " + std::to_string(static_cast<int>(std::exp2(high)))));
  const Outcome resumed = must(tandem_in(directory, {"train", "run"}));
  CHECK_THAT(resumed.out + resumed.err, !Contains("calibrated on"));

  const std::string infinite = R"(data.augment=[{"name":"normalise","mean":[1e30],"std":[1e-12]}])";
  const Outcome refused = tandem_in(directory, {"train", "digits_mlp", "run_dir=bad", fp16, infinite});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("calibration: "));
  for (const char* wrong :
       {R"(precision={"level":"O1","dtype":"bf16","scaler":"calibrated"})",
        R"(precision={"level":"O1","dtype":"bf16","scaler":"segments"})",
        R"(precision={"level":"O0","scaler":"segments"})",
        R"(precision={"level":"O1","dtype":"fp16","scaler":{"mode":"segments","initial":1024}})",
        R"(precision={"level":"O1","dtype":"fp16","scaler":{"mode":"segments","scope":"loss"}})",
        R"(precision={"level":"O1","dtype":"fp16","scaler":{"mode":"calibrated","initial":1024}})",
        R"(precision={"level":"O1","dtype":"fp16","scaler":{"batches":2}})"})
    CHECK(tandem_in(directory, {"validate", "digits_mlp", wrong}).exit_code == 2);
}

TEST_CASE("calibration ranks the loss scales of a detector by what they lose, before the first step",
          "[program][calibrated]") {
  const TemporaryDirectory directory;
  const auto train = [&](const std::string& run, const std::string& scaler) {
    must(tandem_in(directory, {"train", "ssd_scenes", "data.train_size=64", "data.test_size=16",
                               "data.batch_size=8", "epochs=1", "--limit-steps=4", "run_dir=" + run,
                               R"(precision={"level":"O1","dtype":"fp16","scaler":)" + scaler + "}"}));
    return json::parse(must(tandem_in(directory, {"inspect", run, "--headroom", "--json"})).out);
  };
  const json calibrated = train("calibrated", R"("calibrated")");
  const json calibration = json::parse(read_text(directory.path() / "calibrated/calibration.json"));
  // Doublings of a scale that layers lack, all told, before it flushes as little as the calibration allows.
  const auto lacking = [&](int log2) {
    int sum = 0;
    for (const json& layer : calibration["layers"]) sum += std::max(0, layer["window"][0].get<int>() - log2);
    return sum;
  };
  const int best = calibration["window"][1];
  REQUIRE(best > 6);  // so that it is an arm of its own
  CHECK(calibrated["log2_scale"] == best);
  const std::vector<std::pair<int, json>> arms = {{0, train("unscaled", R"("none")")},
                                                  {3, train("eight", R"({"static":8})")},
                                                  {6, train("sixty-four", R"({"static":64})")},
                                                  {best, calibrated}};
  for (std::size_t i = 1; i < arms.size(); ++i) {
    CAPTURE(arms[i - 1].first, arms[i].first);
    CHECK(lacking(arms[i - 1].first) > lacking(arms[i].first));
    CHECK(arms[i - 1].second["all"]["flushed"].get<double>() >
          1.1 * arms[i].second["all"]["flushed"].get<double>());
  }
}

TEST_CASE("segments of the loss scale: one where one scale fits, kept by the run, refused with the way out",
          "[program][segments]") {
  const TemporaryDirectory directory;
  const auto fp16 = [](const std::string& scaler) {
    return R"(precision={"level":"O1","dtype":"fp16","scaler":")" + scaler + R"("})";
  };
  const auto train = [&](const std::string& run, const std::string& scaler) {
    return must(tandem_in(
        directory, {"train", "digits_mlp", "run_dir=" + run, "epochs=2", "--limit-steps=10", fp16(scaler)}));
  };
  const auto weights = [&](const std::string& run) {
    return saved_tensors(directory.path() / run, "weights");
  };
  const Outcome first = train("run", "segments");
  CHECK_THAT(first.out + first.err, Contains("loss scale: calibrated on 4 batches"));
  train("same", "calibrated");
  train("halves", "segments");
  const std::string file = "calibration.json";
  json found = json::parse(read_text(directory.path() / "run" / file));
  REQUIRE(found["segments"].size() == 1);
  CHECK(found["segments"][0]["log2_scale"] == found["window"][1]);
  CHECK(found["segments"][0]["parameters"].size() == 4);
  CHECK(weights("run") == weights("same"));

  // Two segments as another calibration might have found them: the same bits, as powers of two give.
  json second = found["segments"][0];
  const int start = second["log2_scale"];
  second["border"] = "activation1";
  second["log2_scale"] = start - 1;
  std::vector<std::string> head, body;
  for (const std::string name : found["segments"][0]["parameters"])
    (name.find("fc1.") == 0 ? body : head).push_back(name);
  REQUIRE((!head.empty() && !body.empty()));
  found["segments"][0]["parameters"] = head;
  second["parameters"] = body;
  found["segments"].push_back(second);
  std::ofstream(directory.path() / "halves" / file) << found.dump();
  const Outcome resumed = must(tandem_in(directory, {"train", "halves"}));
  CHECK_THAT(resumed.out + resumed.err, !Contains("calibrated on"));
  must(tandem_in(directory, {"train", "run"}));
  CHECK(weights("halves") == weights("run"));
  CHECK_THAT(must(tandem_in(directory, {"inspect", "halves", "--headroom"})).out, Contains("2 segments"));
  const auto error = [&](const std::string& run) {
    const Outcome outcome = must(tandem_in(directory, {"inspect", run, "--blame", "--json"}));
    const json blame = json::parse(outcome.out);
    CHECK(blame["segments"] == (run == "halves" ? 2 : 1));
    return blame["error"].get<double>();
  };
  CHECK(error("halves") == Approx(error("run")).epsilon(1e-2));

  // Steps that are timed have a scale that was found, too, though there is no data.
  const json timed =
      json::parse(must(tandem_in(directory, {"bench", "ssd_scenes", "data.batch_size=2", "--steps=1",
                                             "--warmup=1", "--json", fp16("segments")}))
                      .out);
  CHECK(timed["segments"].get<int>() >= 1);
  CHECK(timed["loss_scale"].get<double>() != 65536.0);

  const std::string infinite = R"(data.augment=[{"name":"normalise","mean":[1e30],"std":[1e-12]}])";
  const Outcome bad =
      tandem_in(directory, {"train", "digits_mlp", "run_dir=bad", fp16("segments"), infinite});
  CHECK(bad.exit_code == 2);
  CHECK_THAT(bad.err, Contains("calibration: "));
  const Outcome gan = tandem_in(directory, {"train", "dcgan_fashion", "run_dir=gan", fp16("segments")});
  CHECK(gan.exit_code == 2);
  const Outcome other = tandem_in(directory, {"train", "same", fp16("segments"), "epochs=3"});
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.err, Contains("has no segments"));
}
