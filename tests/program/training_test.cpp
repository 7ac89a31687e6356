// Training on Tandem's digits, and the files of a run.
#include <png.h>

#include <csignal>
#include <set>

#include "core/backend.h"
#include "files/safetensors.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;

namespace {

// Trains the small network into `run`; throws away the progress.
Outcome train(const TemporaryDirectory& directory, const std::string& run,
              const std::vector<std::string>& more = {}) {
  return tandem_in(directory, joined({"train", "digits_mlp", "run_dir=" + run}, more));
}

std::string weights(const TemporaryDirectory& directory, const std::string& run) {
  return saved(directory.path() / run, "weights");
}

// The first digit of the data set that comes with Tandem is drawn anew, at twice its size.
void write_zero(const std::string& path) {
  std::vector<png_byte> pixels(16 * 16, 0);
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 16; ++x) {
      const double dx = (x - 7.5) / 4.2, dy = (y - 7.5) / 6.6, r = dx * dx + dy * dy;
      if (r > 0.35 && r < 1.25) pixels[static_cast<std::size_t>(16 * y + x)] = 240;
    }
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = 16;
  image.format = PNG_FORMAT_GRAY;
  REQUIRE(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr));
}

}  // namespace

TEST_CASE("a run learns, and leaves what was promised", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome = train(directory, "run");
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, Contains("Test accuracy: 9"));
  CHECK_THAT(outcome.out, Contains("Run directory: run\n"));

  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path() / "run"))
    files.insert(entry.path().filename());
  CHECK(files == std::set<std::string>{"by_class.json", "checkpoints", "config.json", "environment.json",
                                       "log.txt", "metrics.csv", "metrics.jsonl", "metrics.jsonl.sha256",
                                       "tensorboard"});
  std::set<std::string> checkpoints;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path() / "run/checkpoints"))
    checkpoints.insert(entry.path().filename());
  const std::string best_one = read_text(directory.path() / "run/checkpoints/best");
  std::set<std::string> expected{"best", "latest", "metrics.jsonl", "step-855", "step-900"};
  expected.insert(best_one.substr(0, best_one.size() - 1));
  CHECK(checkpoints == expected);
  CHECK(read_text(directory.path() / "run/checkpoints/latest") == "step-900\n");

  const std::map<std::string, std::set<std::string>> fields = {
      {"start", {"event", "time", "version", "parameters", "precision", "device", "step", "metrics"}},
      {"step",
       {"event", "step", "applied", "epoch", "loss", "lr", "loss_scale", "skipped", "grad_norm",
        "items_per_s"}},
      {"eval", {"event", "step", "epoch", "split", "metrics"}},
      {"checkpoint", {"event", "step", "path"}},
      {"gradients",
       {"event", "step", "epoch", "loss_scale", "total", "zeros", "flushed", "saving_scale", "first",
        "counts"}},
      {"end", {"event", "status", "steps", "applied", "skipped", "wall_s", "peak_memory_bytes", "metrics"}}};
  std::map<std::string, int> counts;
  for (const json& line : json_lines(directory.path() / "run/metrics.jsonl")) {
    std::set<std::string> own;
    for (const auto& [key, value] : line.items()) own.insert(key);
    INFO(line.dump());
    CHECK(own == fields.at(line["event"]));
    ++counts[line["event"]];
  }
  CHECK(counts["start"] == 1);
  CHECK(counts["step"] == 900);
  CHECK(counts["eval"] == 20);
  CHECK(counts["end"] == 1);

  const json end = end_of(directory / "run");
  CHECK(end["status"] == "completed");
  CHECK(end["metrics"]["accuracy"] > 0.93);
  const auto environment = json::parse(read_text(directory.path() / "run/environment.json"));
  CHECK(environment["seed"] == 1);
  CHECK(environment["command_line"] == "tandem train digits_mlp run_dir=run");

  SECTION("eval gives the figures of the training") {
    const Outcome eval = tandem_in(directory, {"eval", "run", "--json", "--confusion", "--by-class"});
    REQUIRE(eval.exit_code == 0);
    const auto result = json::parse(eval.out);
    CHECK(result["metrics"] == end["metrics"]);
    long total = 0, right = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      for (std::size_t j = 0; j < 10; ++j) total += result["confusion"][i][j].get<long>();
      right += result["confusion"][i][i].get<long>();
    }
    CHECK(total == result["samples"]);
    CHECK(static_cast<double>(right) / static_cast<double>(total) ==
          Approx(result["metrics"]["accuracy"].get<double>()));
    const auto& by_class = result["by_class"];
    CHECK(by_class["classes"].size() == 10);
    long counted = 0;
    for (const auto& samples : by_class["samples"]) counted += samples.get<long>();
    CHECK(counted == total);
    const double found = by_class["figures"]["recall"][3].get<double>();
    CHECK(found == Approx(result["confusion"][3][3].get<double>() / by_class["samples"][3].get<double>()));
    const Outcome table = tandem_in(directory, {"eval", "run", "--by-class"});
    CHECK_THAT(table.out,
               Contains("precision") && Contains("recall") && Contains("f1") && Contains("samples"));
    CHECK_THAT(tandem_in(directory, {"eval", "rnu"}).err,
               Contains("no such run directory; did you mean \"run\"?"));
    CHECK(tandem_in(directory, {"eval", "run", "--split", "train"}).exit_code == 0);
    CHECK(tandem_in(directory, {"eval", "run", "--weights", "step-3"}).exit_code == 2);
    CHECK(tandem_in(directory, {"eval", "run", "--split", "validation"}).exit_code == 2);
  }
  SECTION("predict classifies images and arrays") {
    write_zero(directory.path() / "zero.png");
    const Outcome predicted = tandem_in(directory, {"predict", "run", "zero.png", "--json", "--top", "3"});
    INFO(predicted.err);
    REQUIRE(predicted.exit_code == 0);
    const auto line = json::parse(predicted.out);
    CHECK(line["input"] == "zero.png");
    REQUIRE(line["predictions"].size() == 3);
    CHECK(line["predictions"][0]["class"] == 0);
    CHECK(line["predictions"][0]["probability"] >= line["predictions"][1]["probability"]);
    CHECK_THAT(tandem_in(directory, {"predict", "run", "zero.png"}).out, Contains("zero.png  0"));

    const Outcome scored =
        tandem_in(directory, {"predict", "run", "zero.png", "--logits", "--json", "--top=10"});
    REQUIRE(scored.exit_code == 0);
    const auto scores = json::parse(scored.out)["predictions"];
    double sum = 0.0;
    for (const auto& each : scores) sum += std::exp(each["logit"].get<double>());
    CHECK(scores[0]["class"] == 0);
    CHECK(!scores[0].contains("probability"));
    CHECK(std::exp(scores[0]["logit"].get<double>()) / sum ==
          Approx(line["predictions"][0]["probability"].get<double>()).epsilon(1e-4));
    CHECK_THAT(tandem_in(directory, {"predict", "run", "zero.png", "--logits"}).out,
               Contains("zero.png  0 ") && !Contains("%"));

    // Two samples of 8×8 bytes, version 1.0 of the format.
    std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 8, 8), }";
    header += std::string(118 - header.size() - 1, ' ') + "\n";
    directory.write("two.npy",
                    std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + std::string(128, '\x10'));
    const Outcome array = tandem_in(directory, {"predict", "run", "two.npy", "--json"});
    INFO(array.err);
    REQUIRE(array.exit_code == 0);
    CHECK(line_count(array.out) == 2);
    CHECK_THAT(array.out, Contains("two.npy[1]"));
    CHECK(tandem_in(directory, {"predict", "run", "none.png"}).exit_code == 2);
    directory.write("damaged.png", "\x89PNG but not really");
    CHECK(tandem_in(directory, {"predict", "run", "damaged.png"}).exit_code == 2);
  }
  SECTION("the resolved configuration reruns as it is") {
    const Outcome again = tandem_in(directory, {"train", "run/config.json"});
    REQUIRE(again.exit_code == 0);
    CHECK_THAT(again.out, Contains("Run directory: run-2\n"));
    CHECK(weights(directory, "run-2") == weights(directory, "run"));
    CHECK(read_text(directory.path() / "run-2/config.json") ==
          read_text(directory.path() / "run/config.json"));
  }
  SECTION("weights start another run") {
    const Outcome tuned =
        train(directory, "tuned",
              {"init_from={\"path\": \"run\", \"freeze\": \"fc1\"}", "epochs=1", "optimizer.lr=0.0001"});
    INFO(tuned.err);
    REQUIRE(tuned.exit_code == 0);
    CHECK_THAT(tuned.err, Contains("parameters frozen"));
    CHECK(end_of(directory / "tuned")["metrics"]["accuracy"] > 0.93);
    const Outcome other = train(directory, "other", {"init_from=run", "model.hidden=[32]"});
    CHECK(other.exit_code == 2);
    CHECK(train(directory, "loose",
                {"init_from={\"path\": \"run\", \"strict\": false}", "model.hidden=[32]", "epochs=1"})
              .exit_code == 0);
    CHECK(train(directory, "none", {"init_from={\"path\": \"run\", \"freeze\": \"qqq\"}"}).exit_code == 2);
  }
}

TEST_CASE("one seed, one result; loader threads do not matter", "[program]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> augmented{"epochs=3", "+data.augment=random_crop", "model.dropout=0.1"};
  const auto with = [&](const char* run, const char* more) {
    std::vector<std::string> arguments = augmented;
    arguments.emplace_back(more);
    REQUIRE(train(directory, run, arguments).exit_code == 0);
    return weights(directory, run);
  };
  const std::string first = with("first", "data.workers=0");
  CHECK(with("second", "data.workers=0") == first);
  CHECK(with("one", "data.workers=1") == first);
  CHECK(with("four", "data.workers=4") == first);
  CHECK(with("other", "seed=2") != first);
  const std::string two = with("two", "threads=2");
  CHECK(with("two again", "threads=2") == two);
}

TEST_CASE("a second run gets a directory of its own", "[program]") {
  const TemporaryDirectory directory;
  for (int i = 0; i < 3; ++i)
    REQUIRE(tandem_in(directory, {"train", "digits_mlp", "epochs=1", "run_dir=runs/{name}"}).exit_code == 0);
  for (const char* run : {"runs/digits_mlp", "runs/digits_mlp-2", "runs/digits_mlp-3"})
    CHECK(end_of(directory / run)["status"] == "completed");
  CHECK(tandem_in(directory, {"train", "digits_mlp", "run_dir=runs/{nme}"}).exit_code == 2);
}

namespace {

// Runs `arguments` and interrupts it when `run` has written `bytes` more metrics.
Outcome interrupted(const TemporaryDirectory& directory, const std::string& run,
                    std::vector<std::string> arguments, std::size_t bytes) {
  const auto metrics = directory.path() / run / "metrics.jsonl";
  std::error_code error;
  const auto size = [&] {
    const auto now = std::filesystem::file_size(metrics, error);
    return error ? std::size_t{0} : static_cast<std::size_t>(now);
  };
  const std::size_t before = size();
  bool sent = false;
  return launch({.arguments = std::move(arguments), .directory = directory.path().string(), .watch = [&] {
                   if (sent || size() < before + bytes) return 0;
                   sent = true;
                   return SIGINT;
                 }});
}

// Interrupts a run again and again, and expects what a run that nobody interrupts gives.
void check_resume(const std::vector<std::string>& settings, std::size_t bytes) {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, "whole", settings).exit_code == 0);
  const std::vector<std::string> arguments = joined({"train", "digits_mlp", "run_dir=cut"}, settings);
  int cuts = 0;
  for (Outcome outcome = interrupted(directory, "cut", arguments, bytes); outcome.exit_code != 0; ++cuts) {
    INFO(outcome.err);
    // The signal may come when the run has ended and the program has not.
    if (outcome.exit_code == 130 && end_of(directory / "cut")["status"] == "completed") break;
    REQUIRE(outcome.exit_code == 75);
    CHECK_THAT(outcome.out, Contains("tandem train cut"));
    CHECK(end_of(directory / "cut")["status"] == "interrupted");
    outcome = interrupted(directory, "cut", {"train", "cut"}, bytes);
  }
  CHECK(cuts > 0);
  CHECK(weights(directory, "cut") == weights(directory, "whole"));
  CHECK(end_of(directory / "cut")["status"] == "completed");
  CHECK(end_of(directory / "cut")["metrics"] == end_of(directory / "whole")["metrics"]);
  CHECK(tandem_in(directory, {"train", "--resume", "cut"}).exit_code == 2);
}

}  // namespace

TEST_CASE("an interrupted run saves itself and goes on bit for bit", "[program]") {
  check_resume({"epochs=60", "accumulate=2", "ema={\"decay\": 0.99}", "model.dropout=0.1"}, 40000);
}

TEST_CASE("a run on a few batches goes on with those", "[program]") {
  check_resume({"--overfit-batches", "3", "epochs=800", "data.batch_size=32"}, 40000);
  const TemporaryDirectory directory;
  CHECK_THAT(tandem_in(directory, {"train", "--resume", "cut", "--overfit-batches", "2"}).err,
             Contains("leave out --overfit-batches"));
}

TEST_CASE("a run that is interrupted at the end of an epoch evaluates it when it goes on", "[program]") {
  check_resume({"epochs=200", "data.batch_size=2000"}, 20000);  // one step an epoch
}

TEST_CASE("--resume auto finds the newest unfinished run", "[program]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> start{"train", "digits_mlp", "epochs=2", "--resume", "auto"};
  REQUIRE(tandem_in(directory, start).exit_code == 0);  // none yet: a new one
  const auto run = *std::filesystem::directory_iterator(directory.path() / "runs");
  const std::string name = "runs/" + run.path().filename().string();
  CHECK(end_of(directory / name)["status"] == "completed");
  REQUIRE(tandem_in(directory, start).exit_code == 0);  // a completed one is not gone on with
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path() / "runs"), {}) == 2);
  std::ofstream(directory.path() / name / "metrics.jsonl", std::ios::app)
      << "{\"event\":\"end\",\"status\":\"interrupted\"}\n";
  const Outcome other = tandem_in(directory, {"train", "digits_mlp", "epochs=3", "--resume", "auto"});
  CHECK(other.exit_code == 0);  // another configuration is another run
  CHECK(other.out.find("Run directory: " + name + "\n") == std::string::npos);
  const Outcome resumed = tandem_in(directory, start);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.out, Contains("Run directory: " + name));
}

TEST_CASE("a GPU that is asked for and not there ends the program with the reason", "[program]") {
  const TemporaryDirectory directory;
  const auto run = [&](const std::string& device) {
    return launch({.arguments = {"train", "digits_mlp", "epochs=1", "run_dir=" + device, "device=" + device},
                   .directory = directory.path().string(),
                   .environment = {{"TANDEM_CUDA_LIBRARY", "/none/libtandem_cuda.so"}}});
  };
  const Outcome refused = run("cuda");
  CHECK(refused.exit_code == 1);
  CHECK(refused.err ==
        "tandem: device=cuda: TANDEM_CUDA_LIBRARY names /none/libtandem_cuda.so, which does not exist; "
        "use device=auto to fall back to the CPU\n");
  CHECK_FALSE(std::filesystem::exists(directory.path() / "cuda"));
  CHECK(run("auto").exit_code == 0);
  const Outcome environment = launch({.arguments = {"env"},
                                      .directory = directory.path().string(),
                                      .environment = {{"TANDEM_CUDA_LIBRARY", "/none/libtandem_cuda.so"}}});
  CHECK_THAT(environment.out, Contains("CUDA          no GPU: TANDEM_CUDA_LIBRARY names"));
}

TEST_CASE("two interrupts end the program at once", "[program]") {
  const TemporaryDirectory directory;
  const auto metrics = directory.path() / "run" / "metrics.jsonl";
  // A step takes long enough for the second signal to come within it.
  const Outcome outcome =
      launch({.arguments = {"train", "digits_mlp", "run_dir=run", "epochs=1000", "model.hidden=[4096,4096]",
                            "data.batch_size=1024"},
              .directory = directory.path().string(),
              .watch = [&] {
                std::error_code error;
                return std::filesystem::file_size(metrics, error) > 100 && !error ? SIGINT : 0;
              }});
  CHECK(outcome.exit_code == 130);
}

TEST_CASE("a diverged loss stops the run, unless told otherwise", "[program]") {
  const TemporaryDirectory directory;
  const Outcome stopped = train(directory, "run", {"optimizer={\"name\": \"sgd\", \"lr\": 1e6}"});
  CHECK(stopped.exit_code == 3);
  CHECK_THAT(stopped.err, Contains("the loss is "));
  CHECK_THAT(stopped.err, Contains("step "));
  CHECK(end_of(directory / "run")["status"] == "diverged");
  const Outcome going = train(
      directory, "on", {"optimizer={\"name\": \"sgd\", \"lr\": 1e6}", "on_divergence=continue", "epochs=1"});
  CHECK(going.exit_code == 3);
  CHECK_THAT(going.err, Contains("training has diverged"));
  CHECK((going.out + going.err).find("-nan") == std::string::npos);
  CHECK(end_of(directory / "on")["status"] == "diverged");
  CHECK_THAT(read_text(directory / "on/metrics.csv"), Catch::StartsWith("step,"));
}

TEST_CASE("weights that are not finite answer nothing", "[program]") {
  const TemporaryDirectory directory;
  const Outcome trained = train(directory, "run",
                                {"optimizer={\"name\": \"sgd\", \"lr\": 1e6}", "on_divergence=continue",
                                 "epochs=1", "precision.scaler=nvcaffe"});
  CHECK(trained.exit_code == 3);
  CHECK_THAT(trained.err, Contains(" at element ") && Contains("training has diverged"));
  const std::string why = "; the run that saved it diverged";
  directory.write("image.pgm", "P5\n8 8\n255\n" + std::string(64, 'x'));
  for (const std::vector<std::string>& refused :
       {std::vector<std::string>{"predict", "run", "image.pgm"}, {"export", "run", "--format", "onnx"}}) {
    const Outcome outcome = tandem_in(directory, refused);
    CHECK(outcome.exit_code == 2);
    CHECK_THAT(outcome.err, Contains(why));
  }
  const Outcome evaluated = tandem_in(directory, {"eval", "run"});
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.err, Contains("warning: ") && Contains(why));
  CHECK(evaluated.out.find("-nan") == std::string::npos);
}

TEST_CASE("a loss that is no number is not the best for ever", "[program]") {
  const TemporaryDirectory directory;
  const std::vector<std::string> settings{
      "checkpoint.best=loss", "data.batch_size=64",
      R"(model={"layers": [{"type": "flatten"}, {"type": "linear", "out_features": 64}, {"type": "batch_norm"},
                           {"type": "linear", "out_features": 10}]})"};
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    return train(directory, name, joined(more, settings));
  };
  // A running mean from which evaluation overflows for some epochs, while training is sound.
  must(run("start", {"--limit-steps", "1"}));
  {
    const tandem::safetensors::File file(
        (newest_checkpoint(directory.path() / "start") / "weights.safetensors").string());
    std::vector<tandem::safetensors::NamedTensor> tensors;
    for (const auto& entry : file.entries()) {
      const tandem::Tensor tensor = file.read(entry);
      if (entry.name == "2.running_mean") tandem::backend_for({}).fill(tensor, 3e38);
      if (entry.name == "2.weight") tandem::backend_for({}).fill(tensor, 1e4);
      tensors.emplace_back(entry.name, tensor);
    }
    tandem::safetensors::write((directory.path() / "huge.safetensors").string(), tensors, file.metadata());
  }
  const auto losses = [&](const std::string& name) {
    std::vector<json> values;
    for (const json& event : events_of(directory / name, "eval")) values.push_back(event["metrics"]["loss"]);
    return values;
  };
  const auto best = [&](const std::string& name) {
    return read_text(directory.path() / name / "checkpoints" / "best");
  };
  const Outcome whole = run("whole", {"init_from=huge.safetensors", "epochs=6"});
  CHECK(whole.exit_code == 3);  // it has a number in the end, of 2^64 and more
  REQUIRE(losses("whole")[0].is_null());
  REQUIRE(losses("whole")[1].is_null());
  REQUIRE(losses("whole")[5].is_number());
  CHECK(best("whole") == "step-138\n");
  // The first is the best while there is none better, in a run that is gone on with, too.
  must(run("cut", {"init_from=huge.safetensors", "epochs=2", "--limit-steps", "23"}));
  REQUIRE(tandem_in(directory, {"train", "cut"}).exit_code == 0);
  CHECK(losses("cut") == std::vector<json>(2));
  CHECK(best("cut") == "step-23\n");
}

TEST_CASE("checkpoints are saved, and steps logged, after every so many", "[program]") {
  const TemporaryDirectory directory;
  REQUIRE(train(directory, "run",
                {"epochs=2", "checkpoint.every_steps=20", "checkpoint.every_epochs=0", "checkpoint.keep=100",
                 "eval.every_epochs=0", "log_every=15"})
              .exit_code == 0);
  const auto steps = [&](const std::string& kind) {
    std::vector<int> all;
    for (const json& event : events_of(directory / "run", kind)) all.push_back(event["step"]);
    return all;
  };
  CHECK(steps("checkpoint") == std::vector<int>{20, 40, 60, 80, 90});
  CHECK(steps("step") == std::vector<int>{15, 30, 45, 60, 75, 90});
}

TEST_CASE("dry runs, limits and a few batches", "[program]") {
  const TemporaryDirectory directory;
  const Outcome dry = train(directory, "run", {"--dry-run"});
  CHECK(dry.exit_code == 0);
  CHECK_THAT(dry.out, Contains("4810 parameters"));
  CHECK_FALSE(std::filesystem::exists(directory.path() / "run"));
  CHECK_THAT(dry.out, Contains("epochs of 45 steps"));
  // The last batches of an epoch are a step, too.
  CHECK_THAT(train(directory, "run", {"--dry-run", "accumulate=7"}).out, Contains("epochs of 7 steps"));

  REQUIRE(train(directory, "limited", {"--limit-steps", "7"}).exit_code == 0);
  CHECK(end_of(directory / "limited")["steps"] == 7);
  REQUIRE(train(directory, "few", {"--overfit-batches", "2", "epochs=60", "optimizer.lr=0.01"}).exit_code ==
          0);
  CHECK(end_of(directory / "few")["steps"] == 120);
  CHECK(end_of(directory / "few")["metrics"]["accuracy"] == 1.0);
  // Only what is random in the augmentation is left out.
  const Outcome resized = train(directory, "resized",
                                {"--dry-run", "--overfit-batches", "1",
                                 R"(data.augment=[{"name": "resize", "size": 16}, "horizontal_flip"])"});
  CHECK_THAT(resized.out, Contains(",16,16,1]"));
  CHECK(json::parse(read_text(directory.path() / "few/config.json"))["data"]["overfit_batches"] == 2);
}

TEST_CASE("validation chooses the weights that are tested", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome = train(directory, "run",
                                {"data.validation_size=300", "eval.confusion=true",
                                 "loss.label_smoothing=0.1", "clip_norm=1", "epochs=8"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  std::set<std::string> splits;
  json chosen, tested;
  for (const json& event : events_of(directory / "run", "eval")) {
    splits.insert(event["split"]);
    if (event["split"] == "test") tested = event;
    const bool better = chosen.is_null() || event["metrics"]["accuracy"] > chosen["metrics"]["accuracy"];
    if (event["split"] == "validation" && better) chosen = event;
  }
  CHECK(splits == std::set<std::string>{"test", "validation"});
  CHECK(tested["epoch"] == chosen["epoch"]);
  CHECK_THAT(outcome.err, Contains(fmt::format("epoch {}/8  test: accuracy", chosen["epoch"].get<int>())));
  CHECK(line_count(read_text(directory.path() / "run/confusion.csv")) == 11);
  const auto best = json::parse(tandem_in(directory, {"eval", "run", "--json"}).out);
  CHECK(best["metrics"] == end_of(directory / "run")["metrics"]);
}

TEST_CASE("convolutional networks and networks written as layers learn", "[program]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, {"train", "digits_lenet", "run_dir=lenet", "epochs=5"}).exit_code == 0);
  CHECK(end_of(directory / "lenet")["metrics"]["accuracy"] > 0.9);
  const std::string layers =
      R"(model={"layers": [{"type": "conv2d", "out_channels": 8, "kernel": 3, "padding": "same"}, {"type": "relu"},
         {"type": "flatten"}, {"type": "linear", "out_features": 10}]})";
  REQUIRE(train(directory, "layers", {layers, "epochs=5"}).exit_code == 0);
  CHECK(end_of(directory / "layers")["metrics"]["accuracy"] > 0.9);
  const Outcome wrong =
      train(directory, "wrong", {R"(model={"layers": [{"type": "linear", "out_featurs": 10}]})"});
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.err,
             Contains("model.layers.0.out_featurs: unknown key; did you mean model.layers.0.out_features?"));
}
