// tandem inspect: tensors, casts and gradients of a run, of a configuration, and of a file.
#include <cmath>

#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

json object_of(const TemporaryDirectory& directory, const std::vector<std::string>& arguments) {
  return json::parse(must(tandem_in(directory, arguments)).out);
}

}  // namespace

TEST_CASE("inspect: the tensors of a run and its state in words", "[program]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, {"train", "digits_lenet", "run_dir=run", "epochs=1", "precision=amp_fp16"})
              .exit_code == 0);
  const Outcome outcome = tandem_in(directory, {"inspect", "run"});
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(
      outcome.out,
      Contains("conv1.weight") && Contains("[6,1,5,5]") && Contains("10 tensors") &&
          Contains("45 steps attempted, 45 applied, 0 skipped; goes on in epoch 2 after 0 samples of it") &&
          Contains("loss scale 65536, 45 clean steps since it moved; best 0."));
  CHECK_THAT(tandem_in(directory, {"inspect", "run/checkpoints/step-45/state.safetensors"}).out,
             Contains("master.conv1.weight") && Contains("state: 45 steps attempted"));
  const json file =
      object_of(directory, {"inspect", "run/checkpoints/step-45/weights.safetensors", "--json"});
  REQUIRE(file["tensors"].size() == 10);
  for (const json& tensor : file["tensors"]) {
    CHECK(tensor["min"].get<double>() <= tensor["mean"].get<double>());
    CHECK(tensor["mean"].get<double>() <= tensor["max"].get<double>());
    CHECK(tensor["non_finite"] == 0);
  }
}

TEST_CASE("inspect: a figure that is not defined is a dash", "[program]") {
  const TemporaryDirectory directory;
  // Steps that overflow are skipped: they have no gradient norm.
  const Outcome outcome =
      tandem_in(directory, {"train", "digits_mlp", "run_dir=run", "-q", "tensorboard=false", "epochs=3",
                            "optimizer.lr=1e6", "precision=amp_fp16", "on_divergence=continue"});
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(must(tandem_in(directory, {"inspect", "run"})).out, Contains(", gradient norm –; loss scale"));
  // Results that 16 bits cannot hold have no error of their own.
  const json range = json::parse(must(tandem_in(directory, {"inspect", "run", "--blame", "--json"})).out);
  for (const json& op : range["ops"]) {
    if (op["op"] != "linear") continue;
    CHECK(op["cause"] == "range");
    CHECK(op["local"].is_null());
  }

  // Weights that are not finite: neither the FP32 step nor an op has an error.
  std::string file = saved(directory.path() / "run", "weights");
  for (std::size_t at = file.size() - 4 * 4810; at < file.size(); at += 4)
    file.replace(at, 4, "\0\0\xc0\xff", 4);
  directory.write("nan.safetensors", file);
  const auto inspected = [&](const std::vector<std::string>& more) {
    return must(tandem_in(directory, joined({"inspect", "run", "--weights=nan.safetensors"}, more))).out;
  };
  CHECK_THAT(inspected({}), Contains("  –") && !Contains("nan "));
  const std::string text = inspected({"--blame"});
  CHECK_THAT(text, Contains("error of the gradient –, or – if") && !Contains("nan") && !Contains("inf,"));
  const json blame = json::parse(inspected({"--blame", "--json"}));
  CHECK(blame["error"].is_null());
  CHECK(blame["noise"].is_null());
}

TEST_CASE("inspect --casts: what ran in which type, and why", "[program]") {
  const TemporaryDirectory directory;
  const auto casts = [&](const std::string& precision) {
    return object_of(directory, {"inspect", "digits_lenet", "precision=" + precision, "--casts", "--json"});
  };
  const auto row = [](const json& report, const std::string& layer, const std::string& op) {
    for (const json& entry : report["rows"])
      if (entry["layer"] == layer && entry["op"] == op) return entry;
    FAIL(layer << " " << op);
    return json();
  };
  const json o1 = casts("amp_fp16");
  CHECK(row(o1, "conv1", "conv2d")["inputs"] == "f16 f16* f16*");
  CHECK(row(o1, "conv1", "conv2d")["reason"] == "rule lower");
  CHECK(row(o1, "conv1", "conv2d")["casts"] == 1);  // of the image
  CHECK(row(o1, "pool1", "max_pool2d")["reason"] == "rule neutral");
  CHECK(row(o1, "loss", "cross_entropy")["output"] == "f32");
  CHECK(o1["casts"] == 1);
  CHECK(o1["working_copies"] == 10);
  CHECK(o1["lowered_flop"] == o1["flop"]);
  CHECK(o1["memory"].size() == 2);
  CHECK(o1["memory"][1]["activations"].get<double>() < 0.6 * o1["memory"][0]["activations"].get<double>());

  const json fp32 = casts("fp32");
  CHECK(row(fp32, "conv1", "conv2d")["inputs"] == "f32 f32 f32");
  CHECK(fp32["casts"] == 0);
  CHECK(fp32["lowered_flop"] == 0);

  const json edited =
      casts(R"({"level":"O1","dtype":"bf16","lists":{"deny":["max_pool2d"]},"layers":{"^fc":"fp32"}})");
  CHECK(row(edited, "pool1", "max_pool2d")["reason"] == "lists.deny");
  CHECK(row(edited, "pool1", "max_pool2d")["output"] == "f32");
  CHECK(row(edited, "fc2", "linear")["reason"] == "layers ^fc");
  CHECK(row(edited, "fc2", "linear")["output"] == "f32");
  CHECK(row(edited, "conv2", "conv2d")["casts"] == 1);  // back to 16 bits after the pool
  CHECK(row(casts(R"({"level":"O2","dtype":"bf16"})"), "activation1", "relu")["reason"] == "level O2");
}

TEST_CASE("inspect --casts: a cast layer is a cast of its own, named like any layer", "[program]") {
  const TemporaryDirectory directory;
  directory.write("casts.json", R"({"base": "digits_lenet", "model": {"layers": [
      {"type": "cast", "dtype": "fp16", "name": "down"}, {"type": "relu", "name": "act"},
      {"type": "flatten"}, {"type": "linear", "out_features": 10}]}})");
  const json report = object_of(directory, {"inspect", "casts.json", "~model.name", "--casts", "--json"});
  const auto text = [](const json& row) {
    return row["layer"].dump() + row["op"].dump() + row["output"].dump();
  };
  CHECK(text(report["rows"][0]) == R"("down""cast""f16")");
  CHECK(text(report["rows"][1]) == R"("act""relu""f16")");
  CHECK(report["casts"] == 0);  // precision has added none
}

TEST_CASE("inspect --gradients: what FP16 flushes, predicted and measured", "[program]") {
  const TemporaryDirectory directory;
  const json report = object_of(
      directory, {"inspect", "digits_lenet", "--gradients", "--batches=2", "--out=chart.svg", "--json"});
  std::int64_t total = 0;
  for (const json& layer : report["layers"]) total += layer["activations"]["total"].get<std::int64_t>();
  const json& all = report["all"]["activations"];
  CHECK(all["total"] == total);
  std::int64_t counted = all["zeros"].get<std::int64_t>();
  for (const auto& [exponent, count] : all["exponents"].items()) counted += count.get<std::int64_t>();
  CHECK(counted == total);
  CHECK(all["flushed"]["1"].get<std::int64_t>() >= all["flushed"]["8"].get<std::int64_t>());
  CHECK(all["flushed"]["8"].get<std::int64_t>() >= all["flushed"]["32768"].get<std::int64_t>());
  // The prediction meets what an FP16 pass gives within a point.
  const double predicted =
      (all["zeros"].get<double>() + all["flushed"]["1"].get<double>()) / static_cast<double>(total);
  const double measured =
      report["all"]["measured_zeros"].get<double>() / report["all"]["measured_total"].get<double>();
  CHECK(std::abs(predicted - measured) < 0.01);
  CHECK_THAT(read_text(directory.path() / "chart.svg"),
             Catch::StartsWith("<svg") && Contains("All layers") || Contains("Gradients of all layers"));
}

TEST_CASE("inspect refuses what it cannot look at", "[program]") {
  const TemporaryDirectory directory;
  const auto refused = [&](std::vector<std::string> arguments, const std::string& reason) {
    arguments.insert(arguments.begin(), "inspect");
    const Outcome outcome = tandem_in(directory, arguments);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, Contains(reason));
  };
  refused({"nowhere"}, "neither a run directory nor a file");
  refused({"digits_lenet", "--casts", "--gradients"}, "give one of them");
  refused({"digits_lenet", "--out=a.svg"}, "--gradients");
  refused({"digits_lenet", "--gradients", "--batches=0"}, "at least 1");
  refused({"digits_lenett", "--casts"}, "digits_lenet");
}

TEST_CASE("FP16 without a loss scale warns once, with the measured share", "[program]") {
  const TemporaryDirectory directory;
  const auto run = [&](const std::string& name, const std::string& precision) {
    return tandem_in(directory,
                     {"train", "digits_lenet", "run_dir=" + name, "epochs=1", "precision=" + precision})
        .err;
  };
  const std::string warned = run("a", R"({"level":"O1","dtype":"fp16","scaler":"none"})");
  CHECK_THAT(warned, Contains("FP16 without a loss scale") && Contains("% of the activation gradients"));
  CHECK(warned.find("FP16 without") == warned.rfind("FP16 without"));
  CHECK_THAT(run("b", "amp_fp16"), !Contains("without a loss scale"));
  CHECK_THAT(run("c", R"({"level":"O1","dtype":"fp16","scaler":{"static":64}})"),
             !Contains("without a loss scale"));
  // Measuring changes nothing of the run.
  const auto weights = [&](const std::string& name) { return saved(directory.path() / name, "weights"); };
  run("d", R"({"level":"O1","dtype":"fp16","scaler":{"static":1}})");
  CHECK(weights("a") == weights("d"));
}
