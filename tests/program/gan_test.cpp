// A GAN by the program: two networks in turn, from training to a grid of images, at tiny sizes on Tandem's
// digits, with metrics of their classifier.
#include <fmt/core.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/tensor.h"
#include "data/image_file.h"
#include "files/safetensors.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr int kSteps = 6;  // of an epoch

Json adam() { return {{"name", "adam"}, {"lr", 2e-4}, {"beta1", 0.5}, {"beta2", 0.999}}; }

// The run of a classifier of the digits, at 16×16; trained once.
const std::string& classifier() {
  static const TemporaryDirectory directory;
  static const std::string run = [] {
    must(tandem_in(directory, {"train", "digits_lenet", "epochs=2", "run_dir=lenet", "-q"}));
    return (directory.path() / "lenet").string();
  }();
  return run;
}

Json config() {
  const Json resize = {{"name", "resize"}, {"size", 16}};
  return {{"task", "gan"},
          {"model", {{"name", "dcgan"}, {"width", 4}, {"noise", 8}}},
          {"data",
           {{"name", "digits"},
            {"batch_size", 32},
            {"train_size", 32 * kSteps},
            {"augment", Json::array({resize})}}},
          {"eval", {{"features", classifier()}, {"samples", 70}}},
          {"optimizers", {{"discriminator", adam()}, {"generator", adam()}}},
          {"epochs", 2},
          {"threads", 1},
          {"tensorboard", false}};
}

class Gan : public Project {
 public:
  explicit Gan(const Json& patch = Json::object()) : Project(config(), patch) {}
};

using Values = std::map<std::string, std::vector<double>>;

// What a checkpoint holds of a network: its state and its running statistics.
Values network_in(const fs::path& checkpoint, const std::string& network) {
  Values values;
  for (const char* file : {"state.safetensors", "weights.safetensors"}) {
    const tandem::safetensors::File saved(checkpoint / file);
    for (const auto& entry : saved.entries())
      if (entry.name.starts_with(network + ".") && (entry.name.find("running") != std::string::npos ||
                                                    entry.name.find(".master.") != std::string::npos ||
                                                    entry.name.find(".moment") != std::string::npos))
        values[entry.name] = saved.read(entry).to_vector<double>();
  }
  return values;
}

const std::string kSmallScale = R"(precision.scaler={"mode": "dynamic", "initial": 1024, "interval": 5})";

}  // namespace

TEST_CASE("a GAN trains, is measured and leaves its samples", "[program][gan]") {
  const Gan gan(Json{{"tensorboard", true}});
  const std::string start = "precision=";
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    gan.must_train(precision, {start + precision});
    for (const std::string phase : {"discriminator", "generator"}) {
      const auto steps = gan.events(precision, "step", phase);
      REQUIRE(steps.size() == 2 * kSteps);
      CHECK(steps.back()["applied"] == 2 * kSteps);
      CHECK(steps.back()["grad_norm"] > 0.0);
    }
    const auto evals = gan.events(precision, "eval");
    REQUIRE(evals.size() == 2);
    CHECK(evals.back()["metrics"]["fd_lenet"] > 0.0);
    CHECK(evals.back()["metrics"]["class_entropy"] >= 0.0);
    // 64 images of 16×16, two pixels apart, 8 in a row.
    const tandem::Tensor grid =
        tandem::datasets::read_image(gan / precision / "pictures/samples-test-0002.png", 1);
    CHECK(grid.shape() == tandem::Shape{8 * 18 - 2, 8 * 18 - 2, 1});
  }
  CHECK(gan.events("fp32", "eval")[0]["metrics"] != gan.events("fp32", "eval")[1]["metrics"]);
  CHECK(read_text(gan / "fp32/pictures/samples-test-0001.png") !=
        read_text(gan / "fp32/pictures/samples-test-0002.png"));
  CHECK_THAT(read_text(gan / "fp32/metrics.csv"), Contains("discriminator") && Contains("generator"));
  std::string events;
  for (const auto& entry : fs::directory_iterator(gan / "fp32/tensorboard"))
    events += read_text(entry.path());
  CHECK(events.find(read_text(gan / "fp32/pictures/samples-test-0002.png")) != std::string::npos);
  gan.must({"report", "fp32", "amp_fp16", "--out", "both.html"});
  gan.must({"report", "fp32"});
  CHECK_THAT(read_text(gan / "fp32/report.html"),
             Contains("data:image/png;base64,") && Contains("fd_lenet") && Contains("after epoch 2"));
}

TEST_CASE("a GAN follows a plan of both phases, and goes on with it", "[program][gan][plan]") {
  const Gan gan;
  gan.must({"plan", "config.json", "--policy=rules", "--seconds=0.1", "--force", "--out=rules.json"});
  const Json plan = Json::parse(read_text(gan / "rules.json"));
  REQUIRE(plan["phases"].size() == 2);
  CHECK(plan["phases"][0]["model"]["phase"] == "discriminator");
  CHECK(plan["phases"][1]["model"]["phase"] == "generator");
  const std::string rules = R"(precision={"level":"O1","dtype":"bf16","plan":"rules.json"})";
  gan.must_train("o1", {"precision=amp_bf16"});
  gan.must_train("planned", {rules});
  CHECK(read_text(gan / "planned/plan.json") == read_text(gan / "rules.json"));
  const auto weights = [&](const std::string& run) { return saved_tensors(gan / run, "weights"); };
  CHECK(weights("planned") == weights("o1"));
  gan.train("half", {rules, "--limit-steps=7"});
  gan.must({"train", "half"});
  CHECK(weights("half") == weights("o1"));
  gan.must({"eval", "planned", "--in-precision"});

  gan.train("auto", {R"(precision={"level":"O1","dtype":"bf16","plan":"auto"})", "--limit-steps=7"});
  const std::string made = read_text(gan / "auto/plan.json");
  CHECK(Json::parse(made)["phases"].size() == 2);
  gan.must({"train", "auto"});
  CHECK(read_text(gan / "auto/plan.json") == made);
  const Json blame = Json::parse(gan.must({"inspect", "planned", "--blame", "--json"}).out);
  CHECK(blame["phases"][1]["phase"] == "generator");

  const Outcome differs = gan.run({"plan", "diff", "rules.json", "auto/plan.json"});
  CHECK(differs.exit_code <= 1);
}

TEST_CASE("a search for a GAN keeps the gradient of each phase within a limit", "[program][gan][plan]") {
  const Gan gan;
  const Json report = Json::parse(gan.must({"plan", "config.json", "--policy=search", "--limit=0.5",
                                            "--seconds=0.1", "--force", "--json"})
                                      .out);
  for (const Json& phase : report["phases"]) CHECK(phase["accuracy"]["error"].get<double>() <= 0.5);
  const Json advice = Json::parse(gan.must({"advise", "config.json", "--seconds=0.1", "--json"}).out);
  REQUIRE(advice["phases"].size() == 2);
  CHECK(advice["phases"][0]["phase"] == "discriminator");
}

TEST_CASE("a GAN goes on to the bit from the middle of an epoch", "[program][gan]") {
  const Gan gan({{"accumulate", 2}, {"ema", {{"decay", 0.9}}}, {"epochs", 3}});
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    std::vector<std::string> common{"precision=" + precision};
    if (precision == "amp_fp16") common.push_back(kSmallScale);
    gan.check_goes_on("-" + precision, common, 4);
    CHECK(read_text(gan / ("whole-" + precision) / "pictures/samples-test-0003.png") ==
          read_text(gan / ("parts-" + precision) / "pictures/samples-test-0003.png"));
  }
}

TEST_CASE("a GAN of two steps and one scaler survives being killed", "[program][gan]") {
  const Gan gan({{"checkpoint", {{"every_steps", 1}}}, {"epochs", 12}});
  const std::vector<std::string> common{
      "precision=amp_fp16",
      R"(precision.scaler={"mode": "dynamic", "initial": 4294967296, "ceiling": 4294967296, "interval": 7})"};
  gan.must_train("whole", common);
  int skipped[] = {0, 0};
  for (const std::size_t i : {0, 1})
    skipped[i] = gan.events("whole", "step", i == 0 ? "discriminator" : "generator").back()["skipped"];
  CHECK(skipped[0] > 0);
  CHECK(skipped[0] != skipped[1]);
  CHECK(gan.train_killed("killed", common, 1500, 10000) > 1);
  CHECK(gan.same_end("whole", "killed"));
  CHECK(gan.events("killed", "step").size() == gan.events("whole", "step").size());
}

TEST_CASE("a GAN that was killed before it had saved anything begins anew", "[program][gan]") {
  const Gan gan(Json{{"data", {{"train_size", 1200}, {"batch_size", 4}}}, {"epochs", 1}});
  gan.must_train("whole");
  REQUIRE(gan.train("killed", {}, killing(gan / "killed", 2000)).exit_code == 128 + SIGKILL);
  REQUIRE_FALSE(fs::exists(gan / "killed/checkpoints/latest"));
  gan.must({"train", "--resume", "killed", "-q"});
  CHECK(gan.same_end("whole", "killed"));
  const auto losses = [&](const std::string& run) {
    std::vector<Json> all;
    for (const Json& step : gan.events(run, "step")) all.push_back(step["loss"]);
    return all;
  };
  CHECK(losses("whole") == losses("killed"));
  // A state has a loss for each phase, and goes on.
  gan.must({"train", "killed", "epochs=2", "-q"});
}

TEST_CASE("an overflow of one network of a GAN costs the step of that one", "[program][gan]") {
  const Gan gan(Json{{"checkpoint", {{"every_steps", 1}, {"keep", 50}}}});
  for (const std::string scope : {"global", "optimizer", "loss"}) {
    INFO(scope);
    gan.must_train(
        scope, {"precision=amp_fp16", "epochs=4", "optimizers.discriminator.lr=5e-3",
                R"(precision.scaler={"initial": 262144, "ceiling": 4294967296, "interval": 1, "scope": ")" +
                    scope + "\"}"});
    const auto first = gan.events(scope, "step", "discriminator"),
               second = gan.events(scope, "step", "generator");
    REQUIRE(first.size() == 4 * kSteps);
    bool first_alone = false, second_alone = false;
    for (std::size_t i = 1; i < first.size(); ++i) {
      const bool one = first[i]["applied"] == first[i - 1]["applied"],
                 other = second[i]["applied"] == second[i - 1]["applied"];
      first_alone = first_alone || (one && !other);
      second_alone = second_alone || (other && !one);
      for (const std::string network : {"discriminator", "generator"}) {
        INFO(network << " in iteration " << i + 1);
        const fs::path checkpoints = gan / scope / "checkpoints";
        const Values before = network_in(checkpoints / ("step-" + std::to_string(i)), network);
        REQUIRE(before.size() > 8);
        CHECK((before == network_in(checkpoints / ("step-" + std::to_string(i + 1)), network)) ==
              (network == "discriminator" ? one : other));
      }
    }
    CHECK((first_alone || second_alone));
    CHECK(first.back()["applied"] > 0);
    CHECK(second.back()["applied"] > 0);
  }
}

TEST_CASE("an overflow of a GAN is explained, and its step done again", "[program][gan]") {
  const Gan gan;
  const std::vector<std::string> common{"precision=amp_fp16", "precision.diagnose=2"};
  auto retried = common, plain = common;
  retried.insert(retried.end(), {"precision.on_skip=retry",
                                 R"(precision.scaler={"initial": 4294967296, "ceiling": 4294967296})"});
  gan.must_train("retried", retried);
  const auto last = gan.events("retried", "step", "discriminator").back(),
             other = gan.events("retried", "step", "generator").back();
  CHECK(last["applied"] == 2 * kSteps);
  CHECK(other["applied"] == 2 * kSteps);
  CHECK(last["skipped"].get<int>() + other["skipped"].get<int>() > 0);
  const auto overflows = gan.events("retried", "overflow");
  REQUIRE(overflows.size() == 2);
  CHECK(overflows.front()["cause"] == "scale");
  CHECK_THAT(overflows.front().dump(), Contains("discriminator"));
  // No batch was lost: it is the training at the scale that it came down to.
  REQUIRE(other["skipped"] == 0);
  plain.push_back(
      fmt::format(R"(precision.scaler={{"static": {}}})", last["loss_scale"].get<std::int64_t>()));
  gan.must_train("plain", plain);
  for (const std::string network : {"discriminator", "generator"})
    CHECK(network_in(newest_checkpoint(gan / "retried"), network) ==
          network_in(newest_checkpoint(gan / "plain"), network));
}

TEST_CASE("a trained generator makes as many images as are asked for", "[program][gan]") {
  const Gan gan;
  gan.must_train("run");
  const auto make = [&](const std::string& file, std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "run", "--out", file});
    gan.must(more);
    return read_text(gan / file);
  };
  const std::string grid = make("grid.png", {"--count", "64"});
  CHECK(make("again.png", {"--count", "64", "--seed", "0"}) == grid);
  CHECK(make("standard.png", {}) == grid);
  CHECK(make("other.png", {"--count", "64", "--seed", "1"}) != grid);
  CHECK(read_text(gan / "run/pictures/samples-test-0002.png") ==
        grid);  // of the same z, and the same weights
  // An image depends on the seed and its place alone.
  make("few.png", {"--count", "4"});
  const tandem::Tensor all = tandem::datasets::read_image(gan / "grid.png", 1),
                       few = tandem::datasets::read_image(gan / "few.png", 1);
  CHECK(all.shape() == tandem::Shape{142, 142, 1});
  REQUIRE(few.shape() == tandem::Shape{34, 34, 1});
  const auto pixel = [](const tandem::Tensor& image, tandem::Index y, tandem::Index x) {
    return image.data<std::uint8_t>()[y * image.size(1) + x];
  };
  std::set<int> values;
  for (tandem::Index y = 0; y < 16; ++y)
    for (tandem::Index x = 0; x < 34; ++x) {
      CHECK(pixel(all, y, x) == pixel(few, y, x));
      values.insert(pixel(few, y, x));
    }
  CHECK(values.size() > 1);
  // 300 are made in several portions.
  make("many.png", {"--count", "300"});
  CHECK(tandem::datasets::read_image(gan / "many.png", 1).shape() ==
        tandem::Shape{17 * 18 - 2, 18 * 18 - 2, 1});

  CHECK_THAT(gan.refused({"predict", "run"}), Contains("--out is missing"));
  CHECK_THAT(gan.refused({"predict", "run", "--out", "a.jpg"}), Contains("a.jpg") && Contains(".png"));
  CHECK_THAT(gan.refused({"predict", "run", "--out", "a.png", "--count", "0"}), Contains("--count"));
  CHECK_THAT(gan.refused({"predict", "run", "--out", "a.png", "--count", "10001"}), Contains("10000"));
  CHECK_THAT(gan.refused({"predict", "run", "--out", "a.png", "--seed", "-1"}), Contains("--seed"));
  CHECK_THAT(gan.refused({"predict", "run", "--out", "a.png", "--top", "3"}),
             Contains("task gan takes no --top; it takes --count, --out, --seed"));
  CHECK_THAT(gan.refused({"predict", "run", "grid.png", "--out", "a.png"}), Contains("takes no inputs"));
}

TEST_CASE("every command takes a GAN", "[program][gan]") {
  const Gan gan;
  gan.must_train("run");
  gan.check_commands({{"export", "run", "--format", "onnx"}});
  const Outcome evaluated = gan.must({"eval", "run", "--weights", "last"});
  CHECK_THAT(evaluated.out,
             Contains(fmt::format("fd_lenet {:.4f}",
                                  gan.events("run", "eval").back()["metrics"]["fd_lenet"].get<double>())));
  CHECK_THAT(evaluated.out, !Contains("PNG"));
  CHECK_THAT(gan.run({"summary", "config.json"}).out,
             Contains("generator.main.0") && Contains("discriminator.main.0"));
  CHECK_THAT(gan.run({"inspect", "config.json", "--casts", "precision=amp_fp16"}).out,
             Contains("% of the forward time is in products") && !Contains("\n                 0 % of the"));
  CHECK_THAT(gan.run({"train", "config.json", "--dry-run"}).out, Contains("loss of the discriminator") &&
                                                                     Contains("loss of the generator") &&
                                                                     Contains("fd_lenet by " + classifier()));
  const tandem::safetensors::File exported(gan / "run/exports/best.safetensors");
  CHECK(exported.find("main.0.weight") != nullptr);
  CHECK(exported.read("main.0.weight").shape() == tandem::Shape{8, 8, 4, 4});
  const std::string onnx = read_text(gan / "run/exports/best.onnx");
  CHECK_THAT(onnx, Contains("ConvTranspose") && Contains("Tanh") && Contains("noise") && Contains("images") &&
                       Contains("tandem.output") && Contains("\"normal\"") &&
                       Contains(R"("layout":"NHWC","shape":[16,16,1],"range":[-1,1])"));
  CHECK_THAT(read_text(gan / "compared/compare.json"), Contains("\"metric\": \"fd_lenet\""));
}

TEST_CASE("errors of a GAN's configuration are one line", "[program][gan]") {
  const Gan gan;
  const auto refused = [&](const std::string& change) { return gan.refused_to_train({change}); };
  // Phases and their optimizers.
  CHECK_THAT(refused(R"(optimizers={"generatr": "adam"})"),
             Contains("generatr") && Contains("\"generator\""));
  CHECK_THAT(refused(R"(optimizers={"generator": {"name": "adam", "momentum": 0.9}})"), Contains("momentum"));
  gan.must_train("run", {"epochs=1"});
  CHECK_THAT(gan.refused_to_train({R"(init_from={"path": "run", "freeze": "generator"})"}),
             Contains("generator") && Contains("no parameter to train"));
  // Networks.
  CHECK_THAT(refused(R"(model="lenet5")"), Contains("lenet5 is no GAN; use dcgan"));
  CHECK_THAT(refused("model.image_size=32"), Contains("32"));
  CHECK_THAT(refused("model.width=0"), Contains("model.width"));
  // Sizes of images.
  CHECK_THAT(refused(R"(data.augment=[{"name": "resize", "size": [16, 12]}])"),
             Contains("16×12") || Contains("other resizing or cropping"));
  CHECK_THAT(refused(R"(data.augment=[{"name": "resize", "size": 16}, {"name": "mixup", "alpha": 0.2}])"),
             Contains("mixup"));
  // The classifier.
  CHECK_THAT(refused("eval.features=nowhere"), Contains("nowhere: there is no such file or run"));
  CHECK_THAT(refused("eval.features=null"), Contains("Tandem has no classifier for digits"));
  CHECK_THAT(refused("eval.features=run"), Contains("run: is not a run that trained a classifier"));
  CHECK_THAT(refused("eval.features=config.json"),
             Contains("[config.json]") && Contains("is it a safetensors file?"));
  CHECK_THAT(refused("eval.features=run/checkpoints"), Contains("is not a run"));
  CHECK_THAT(refused("data.augment=[]"), Contains("other resizing or cropping"));
  CHECK_THAT(refused("data={\"name\": \"synthetic\", \"image_size\": 16, \"channels\": 1, \"augment\": []}"),
             Contains("was trained on digits") && Contains("the data is synthetic"));
  CHECK_THAT(refused("checkpoint.best=fd_classifier"), Contains("the classifier's features give fd_lenet"));
  CHECK_THAT(refused("checkpoint.best=accuracy"), Contains("fd_lenet"));
  CHECK_THAT(refused("eval.samples=1"), Contains("eval.samples"));
  // What one network is trained for, two are not.
  CHECK_THAT(gan.refused({"train", "digits_mlp", "model=dcgan", "run_dir=refused", "-q"}),
             Contains("model: dcgan is no classifier; use mlp") &&
                 Contains("DCGAN: a generator and a discriminator"));
}
