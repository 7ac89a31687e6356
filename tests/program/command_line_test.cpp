// Help, listings, configurations and mistakes.
#include <fmt/core.h>

#include "core/exit_codes.h"
#include "tests/program/support.h"
#include "tests/support/paths.h"

using namespace tandem::testing;
using Catch::Contains;

namespace {

// A mistake of the user: exit code 2, nothing on stdout, one line on stderr.
void check_mistake(const Outcome& outcome, const std::string& text) {
  CHECK_THAT(refused(outcome), Contains(text));
  CHECK(outcome.out.empty());
}

}  // namespace

TEST_CASE("help and version go to stdout", "[program]") {
  const TemporaryDirectory directory;
  const Outcome help = tandem_in(directory, {"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  for (const char* command :
       {"train", "eval", "predict", "compare", "bench", "validate", "show", "summary", "cp", "ls", "env"}) {
    CHECK_THAT(help.out, Contains(command));
    const Outcome own = tandem_in(directory, {command, "--help"});
    CHECK(own.exit_code == 0);
    CHECK(own.err.empty());
    CHECK_THAT(own.out, Contains(command));
  }
  CHECK(tandem_in(directory, {}).out == help.out);
  CHECK_THAT(help.out, Contains("Exit codes:"));
  for (const tandem::ExitCode& each : tandem::kExitCodes)
    CHECK_THAT(help.out, Contains(fmt::format("\n  {:<3} {}", each.code, each.meaning)));
  const Outcome version = tandem_in(directory, {"--version"});
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, Catch::Matches("tandem [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_CASE("mistakes are one line on stderr and exit code 2", "[program]") {
  const TemporaryDirectory directory;
  check_mistake(tandem_in(directory, {"trian"}), "unknown command \"trian\"; did you mean \"train\"?");
  check_mistake(tandem_in(directory, {"train"}), "a configuration is missing");
  check_mistake(tandem_in(directory, {"train", "nowhere.json"}), "nowhere.json: no such file");
  check_mistake(tandem_in(directory, {"train", "digits_mpl"}), "did you mean digits_mlp?");
  check_mistake(tandem_in(directory, {"train", "digits_mlp", "--limit-steps", "none"}), "limit-steps");
  check_mistake(tandem_in(directory, {"train", "digits_mlp", "--frobnicate"}), "frobnicate");
  check_mistake(tandem_in(directory, {"ls", "everything"}), "everything");
  check_mistake(tandem_in(directory, {"ls"}), "give one of datasets, layers");
  check_mistake(tandem_in(directory, {"eval", "nowhere"}), "nowhere: no such run directory");
  check_mistake(tandem_in(directory, {"cp", "digits_mlp"}), "file");
  check_mistake(
      tandem_in(directory, {"train", "digits_mlp", "precision={\"level\": \"O3\", \"masters\": \"fp32\"}"}),
      "masters are on with O3");
  check_mistake(tandem_in(directory, {"train", "digits_mlp", "model.hidden=[64]", "model.in_features=63"}),
                "model.in_features");
  check_mistake(tandem_in(directory, {"train", "--resume", "nowhere"}), "nowhere: no such run directory");
}

TEST_CASE("a wrong key is found before any data is read", "[program]") {
  const TemporaryDirectory directory;
  const std::string config =
      directory.write("config.json",
                      "{\n  \"model\": \"mlp\",\n  \"data\": {\n    \"name\": \"fashion_mnist\",\n"
                      "    \"path\": \"/no/such/folder\",\n    \"batchsize\": 3\n  }\n}\n");
  check_mistake(tandem_in(directory, {"train", "config.json"}),
                "config.json:6: data.batchsize: unknown key; did you mean data.batch_size?");
  directory.write("twice.json", "{\n  \"model\": \"mlp\",\n  \"model\": \"mlp\"\n}\n");
  check_mistake(tandem_in(directory, {"train", "twice.json"}), "twice.json:3: model: duplicate key");
  check_mistake(tandem_in(directory, {"validate", "config.json", "~data.batchsize", "epochs=ten"}), "epochs");
}

TEST_CASE("missing data names the package and the file", "[program]") {
  const TemporaryDirectory directory;
  check_mistake(tandem_in(directory, {"train", "fashion_mlp", "data.path=/no/such/folder"}),
                "dataset-fashion-mnist");
  CHECK_FALSE(std::filesystem::exists(directory.path() / "runs"));
}

TEST_CASE("everything can be listed", "[program]") {
  const TemporaryDirectory directory;
  const std::map<std::string, std::string> expected = {{"models", "resnet20"},
                                                       {"datasets", "fashion_mnist"},
                                                       {"optimizers", "adamw"},
                                                       {"schedules", "one_cycle"},
                                                       {"ops", "batch_norm"},
                                                       {"presets", "amp_bf16"},
                                                       {"configs", "dcgan on fashion_mnist, adam, 4 epochs"},
                                                       {"keys", "data.batch_size"},
                                                       {"layers", "conv_transpose2d"},
                                                       {"tasks", "classification"},
                                                       {"losses", "focal"},
                                                       {"transforms", "cutmix"}};
  for (const auto& [what, entry] : expected) {
    const Outcome outcome = tandem_in(directory, {"ls", what});
    INFO(what);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, Contains(entry));
  }
  const auto schema = nlohmann::json::parse(tandem_in(directory, {"ls", "keys", "--json-schema"}).out);
  CHECK(schema["properties"].contains("optimizer"));
  CHECK(tandem_in(directory, {"ls", "keys", "--markdown"}).out ==
        read_text(tandem::test::source_path("docs/configuration.md")));
}

TEST_CASE("lists can be narrowed to a beginning, and read by programs", "[program]") {
  const TemporaryDirectory directory;
  const Outcome keys = tandem_in(directory, {"ls", "keys", "data.augment"});
  CHECK(keys.exit_code == 0);
  std::istringstream lines(keys.out);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    CHECK_THAT(line, Catch::StartsWith("data.augment"));
  CHECK(count > 10);
  CHECK(count < line_count(tandem_in(directory, {"ls", "keys"}).out) / 2);
  CHECK(tandem_in(directory, {"ls", "optimizers", "adamw"}).out.find("sgd") == std::string::npos);
  check_mistake(tandem_in(directory, {"ls", "keys", "data.agument"}),
                "no name starts with \"data.agument\"; did you mean \"data.augment");
  check_mistake(tandem_in(directory, {"ls", "keys", "data", "--markdown"}), "print all keys");
  const auto json = [&](const std::vector<std::string>& arguments) {
    return nlohmann::json::parse(tandem_in(directory, arguments).out);
  };
  const auto epochs = json({"ls", "keys", "epochs", "--json"})["keys"][0];
  CHECK(epochs["key"] == "epochs");
  CHECK(epochs.contains("help"));
  CHECK(json({"ls", "losses", "focal", "--json"})["losses"][0]["name"] == "focal");

  const auto valid = json({"validate", "digits_mlp", "--json"});
  CHECK(valid["valid"] == true);
  CHECK(valid["parameters"] == 4810);
  CHECK(valid["memory"]["step_peak"].get<long>() > valid["memory"]["masters"].get<long>());
  const Outcome invalid = tandem_in(directory, {"validate", "digits_mlp", "epochs=ten", "sed=1", "--json"});
  CHECK(invalid.exit_code == 2);
  CHECK(nlohmann::json::parse(invalid.out)["problems"].size() == 2);
}

TEST_CASE("configurations are shown, validated and copied", "[program]") {
  const TemporaryDirectory directory;
  CHECK(tandem_in(directory, {"cp", "digits_mlp", "mine.json"}).exit_code == 0);
  CHECK(read_text(directory.path() / "mine.json") ==
        read_text(tandem::test::source_path("configs/digits_mlp.json")));
  check_mistake(tandem_in(directory, {"cp", "digits_mlp", "mine.json"}), "exists");
  CHECK(tandem_in(directory, {"cp", "digits_mlp", "mine.json", "--force"}).exit_code == 0);

  CHECK(tandem_in(directory, {"validate", "mine.json"}).exit_code == 0);
  const Outcome invalid = tandem_in(directory, {"validate", "mine.json", "epochs=ten", "sed=1"});
  CHECK(invalid.exit_code == 2);
  CHECK(line_count(invalid.err) == 2);
  check_mistake(tandem_in(directory, {"validate", "mine.json", R"(precision={"layers":{"fc9":"fp32"}})"}),
                "command line: precision.layers: \"fc9\" matches none");

  const Outcome shown = tandem_in(directory, {"show", "mine.json", "seed=7"});
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Catch::Matches("[^]*seed = 7 +command line[^]*"));
  CHECK_THAT(shown.out, Catch::Matches("[^]*optimizer.lr = 0.003 +mine.json:5[^]*"));
  CHECK_THAT(shown.out, Catch::Matches("[^]*accumulate = 1 +default[^]*"));
  const auto json = nlohmann::json::parse(tandem_in(directory, {"show", "mine.json", "--json"}).out);
  CHECK(json["optimizer"]["name"] == "adam");
}

TEST_CASE("a configuration is looked at without its data, and refused with broken data", "[program]") {
  const TemporaryDirectory directory;
  for (const char* recipe : {"ssd300_resnet50_coco", "ssd300_vgg16_voc"}) {
    CAPTURE(recipe);
    const Outcome valid = tandem_in(directory, {"validate", recipe, "data.batch_size=2"});
    CHECK(valid.exit_code == 0);
    CHECK_THAT(valid.out, Contains("valid\n") && Contains("without its data, assumed to have ") &&
                              Contains(" parameters"));
  }
  const Outcome absent = tandem_in(directory, {"validate", "fashion_mlp", "data.path=/no/such/folder"});
  CHECK(absent.exit_code == 0);
  CHECK_THAT(absent.out, Contains("valid, but not checked against its data"));
  directory.write("data/train-images-idx3-ubyte", "no images");
  check_mistake(tandem_in(directory, {"validate", "fashion_mlp", "data.path=data"}), "has no train-labels");
}

TEST_CASE("a place that cannot be written is no mistake of the user's", "[program]") {
  const TemporaryDirectory directory;
  REQUIRE(tandem_in(directory, {"train", "digits_mlp", "-q", "epochs=1", "data.train_size=64",
                                "data.test_size=32", "run_dir=run"})
              .exit_code == 0);
  directory.write("file", "");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", "run", "--confusion", "--out", "file/below"},
        {"export", "run", "--format", "npz", "--out", "file/below"},
        {"report", "run", "--out", "file/below"},
        {"train", "digits_mlp", "run_dir=file/below"}}) {
    CAPTURE(command);
    CHECK(tandem_in(directory, command).exit_code == 1);
  }
  // Over what the run is made of: refused, and still there.
  const std::string metrics = read_text(directory / "run/metrics.jsonl");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"export", "run", "--format", "npz", "--out", "run/metrics.jsonl"},
        {"report", "run", "--out", "run/metrics.jsonl"},
        {"eval", "run", "--confusion", "--out", "run/checkpoints"},
        {"eval", "run", "--confusion", "--out", "run"}})
    check_mistake(tandem_in(directory, command), "choose another path");
  CHECK(read_text(directory / "run/metrics.jsonl") == metrics);
  check_mistake(tandem_in(directory, {"train", "digits_mlp", "name=../../x"}), "name: must be a folder name");
}

TEST_CASE("the summary counts parameters", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome = tandem_in(directory, {"summary", "resnet20_synthetic"});
  CHECK(outcome.exit_code == 0);
  for (const char* text : {"272186", "FLOP", "optimizer", "saved for backward"})
    CHECK_THAT(outcome.out, Contains(text));
}

TEST_CASE("the summary as JSON has what the text has", "[program]") {
  const TemporaryDirectory directory;
  const auto json = nlohmann::json::parse(tandem_in(directory, {"summary", "digits_mlp", "--json"}).out);
  CHECK(json["parameters"] == 4810);
  CHECK(json["flop"] == 2 * (64 * 64 + 64 * 10));
  CHECK(json["layers"][0]["parameters"] == 0);
  CHECK(json["memory"]["masters"] >= 4 * 4810);  // each begins at a boundary
  CHECK(json["memory"]["masters"] < 5 * 4810);
}

TEST_CASE("the environment is reported", "[program]") {
  const TemporaryDirectory directory;
  CHECK_THAT(tandem_in(directory, {"env"}).out, Contains("AMX"));
  const auto json = nlohmann::json::parse(tandem_in(directory, {"env", "--json"}).out);
  for (const char* field :
       {"version", "build", "compiler", "libraries", "cpu", "amx", "threads", "memory_bytes", "devices"})
    CHECK(json.contains(field));
}

TEST_CASE("bench prints exactly the promised object", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      tandem_in(directory, {"bench", "digits_mlp", "--json", "--steps", "4", "--warmup", "1"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(line_count(outcome.out) == 1);
  const auto json = nlohmann::ordered_json::parse(outcome.out);
  std::vector<std::string> fields;
  for (const auto& [key, value] : json.items()) fields.push_back(key);
  CHECK(fields == std::vector<std::string>{"config", "precision", "device", "threads", "batch_size",
                                           "loss_scale", "segments", "items_per_s", "step_ms", "steps",
                                           "peak_memory_bytes", "memory", "recorded", "why_not_recorded",
                                           "phases_ms"});
  CHECK(json["steps"] == 4);
  CHECK(json["batch_size"] == 32);
  CHECK(json["items_per_s"].get<double>() > 0.0);
  CHECK(json["step_ms"]["p10"] <= json["step_ms"]["median"]);
  CHECK(json["step_ms"]["median"] <= json["step_ms"]["p90"]);
  for (const char* phase : {"data", "forward", "loss", "backward", "update"})
    CHECK(json["phases_ms"].contains(phase));
  for (const char* kind :
       {"weights", "masters", "gradients", "optimizer", "activations", "workspace", "data"})
    CHECK(json["memory"].contains(kind));
  CHECK_THAT(tandem_in(directory, {"bench", "digits_mlp", "--steps", "2"}).out, Contains("peak memory"));
}

TEST_CASE("bench --profile adds an object, or tables", "[program]") {
  const TemporaryDirectory directory;
  const Outcome outcome =
      tandem_in(directory, {"bench", "digits_mlp", "--json", "--profile", "--steps", "2", "--warmup", "1"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(line_count(outcome.out) == 1);
  const auto profile = nlohmann::ordered_json::parse(outcome.out)["profile"];
  CHECK(profile["steps"] == 2);
  CHECK(profile["families"].size() > 3);
  CHECK(profile["limits"]["copy_gb_per_s"].get<double>() > 0.0);
  const Outcome text = tandem_in(directory, {"bench", "digits_mlp", "--profile", "--steps", "2"});
  CHECK_THAT(text.out, Contains("peak memory") && Contains("% of roofline") && Contains("measured limits"));
  CHECK_THAT(text.out, !Contains("  algorithm"));  // no convolution
  const Outcome convolutions = tandem_in(directory, {"bench", "digits_lenet", "--profile", "--steps", "2"});
  CHECK_THAT(convolutions.out, Contains("  algorithm") && Contains("  library "));
}
