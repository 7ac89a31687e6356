// --weights: each command accepts the same names and paths, and describes the same data.
#include <fmt/core.h>

#include <array>
#include <fstream>

#include "tests/data/files.h"
#include "tests/program/support.h"

using namespace tandem::testing;
using Catch::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Two runs of one network and a run of another, and weights that no run saved; without and with the reading
// of data.
class Runs {
 public:
  Runs() {
    train({"run_dir=run", "epochs=2", "--limit-steps=50"});
    train({"run_dir=other", "--limit-steps=20", "seed=7"});
    train({"run_dir=narrow", "--limit-steps=20", "model.hidden=[32]"});
    must(run({"export", "run", "--format=safetensors", "--out=exported.safetensors", "--weights=step-45"}));
    fs::create_directory(*this / "empty");
    std::ofstream(*this / "text.txt") << "a text of more than eight bytes\n";
    namespace written = tandem::datasets::testing;
    written::write_file(
        *this / "image.npy",
        written::npy_bytes(written::npy_header("|u1", false, "(8, 8, 1)"), written::Bytes(64, 5)));
  }

  Outcome run(const std::vector<std::string>& arguments) const { return tandem_in(directory_, arguments); }
  fs::path operator/(const std::string& name) const { return directory_.path() / name; }

 private:
  void train(const std::vector<std::string>& more) const {
    must(run(
        joined({"train", "digits_mlp", "epochs=1", "-q", "tensorboard=false", "precision=amp_bf16"}, more)));
  }

  TemporaryDirectory directory_;
};

const std::vector<std::vector<std::string>> kCommands = {
    {"eval", "run", "--json"},         {"export", "run", "--format=npz", "--out=out.npz", "--json"},
    {"inspect", "run", "--json"},      {"predict", "run", "image.npy"},
    {"inspect", "run", "--casts"},     {"inspect", "run", "--headroom"},
    {"inspect", "run", "--gradients"}, {"inspect", "run", "--blame"},
};

// The weights that a command says it took; "" where it says nothing of them.
std::string taken(const std::string& out) {
  if (out.starts_with("{")) {
    const json object = json::parse(out);
    return object.value(object.contains("metadata") ? "file" : "weights", "");
  }
  const std::string label = "weights: ";
  return out.starts_with(label) ? out.substr(label.size(), out.find('\n') - label.size()) : "";
}

}  // namespace

TEST_CASE("every command takes the same weights", "[program]") {
  const Runs runs;
  const std::string newest = "run/checkpoints/step-50", older = "run/checkpoints/step-45",
                    file = "/weights.safetensors";
  const std::vector<std::array<std::string, 2>> means = {{"best", ""},
                                                         {"last", newest + file},
                                                         {"step-45", older + file},
                                                         {older + file, older + file},
                                                         {older, older + file},
                                                         {older + "/", older + file},
                                                         {"run/checkpoints/latest", newest + file},
                                                         {"other", "other/checkpoints/step-20" + file},
                                                         {"exported.safetensors", "exported.safetensors"}};
  for (const auto& [given, meant] : means) {
    for (const auto& command : kCommands) {
      INFO(command[0] << " " << command.back() << " --weights " << given);
      const Outcome outcome = runs.run(joined(command, {"--weights", given}));
      INFO(outcome.err);
      REQUIRE(outcome.exit_code == 0);
      const std::string said = taken(outcome.out);
      if (!said.empty() && !meant.empty()) CHECK(said == meant);
    }
    if (given != "best" && given != "last" && given != "step-45")
      must(runs.run({"train", "digits_mlp", "init_from=" + given, "--dry-run"}));
  }
}

TEST_CASE("every command refuses the same weights in the same words", "[program]") {
  const Runs runs;
  const std::vector<std::array<std::string, 2>> reasons = {
      {"step-9", "run: has no weights \"step-9\"; there are best, last, step-N, or a path"},
      {"nothing.safetensors", "run: has no weights \"nothing.safetensors\""},
      {"empty", "empty: is a folder, and neither a run nor a checkpoint"},
      {"text.txt", "is it a safetensors file?"},
      {"narrow", "narrow/checkpoints/step-20/weights.safetensors: are not the weights of the model"}};
  for (const auto& [given, reason] : reasons) {
    for (const auto& command : kCommands) {
      if (command == kCommands[2] && given == "narrow") continue;  // shows the tensors of any file
      INFO(command[0] << " " << command.back() << " --weights " << given);
      CHECK_THAT(refused(runs.run(joined(command, {"--weights", given}))), Contains(reason));
    }
  }
  CHECK_THAT(refused(runs.run({"inspect", "digits_mlp", "--casts", "--weights=best"})),
             Contains("--weights best: no such file") && Contains("digits_mlp is not one"));
  CHECK_THAT(refused(runs.run({"inspect", "exported.safetensors", "--weights=best"})),
             Contains("exported.safetensors is a file"));
}

TEST_CASE("weights that no run saved are taken by a run without a checkpoint", "[program]") {
  const Runs runs;
  fs::remove_all(runs / "run/checkpoints");
  fs::create_directory(runs / "run/checkpoints");
  for (const auto& command : kCommands) {
    INFO(command[0] << " " << command.back());
    must(runs.run(joined(command, {"--weights=exported.safetensors"})));
  }
}

namespace {

// A classifier of texts with two classes, and its weights as no run saves them.
class Labelled {
 public:
  Labelled() {
    write("cook", "play");
    std::ofstream(directory_.path() / "config.json") << config().dump();
    must(run({"train", "config.json", "-q", "run_dir=run"}));
    must(run({"export", "run", "--format=safetensors", "--out=exported.safetensors"}));
  }

  // The texts under these names of the classes.
  void write(const std::string& first, const std::string& second) const {
    for (const char* split : {"train", "validation", "test"}) {
      std::ofstream file(directory_.path() / (std::string(split) + ".tsv"));
      for (int i = 0; i < 40; ++i)
        file << (i % 2 ? first + "\tthe oven is hot\n" : second + "\ta violin is old\n");
    }
  }

  static json config() {
    return {{"task", "text_classification"},
            {"model", {{"name", "text_classifier"}, {"embedding", 4}, {"units", 4}}},
            {"data",
             {{"name", "labelled_lines"},
              {"train", "train.tsv"},
              {"validation", "validation.tsv"},
              {"test", "test.tsv"},
              {"batch_size", 8}}},
            {"optimizer", "adam"},
            {"precision", "amp_bf16"},
            {"epochs", 1},
            {"tensorboard", false}};
  }

  Outcome run(const std::vector<std::string>& arguments) const { return tandem_in(directory_, arguments); }
  fs::path operator/(const std::string& name) const { return directory_.path() / name; }

 private:
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("eval compares the classes of weights that no run saved, too", "[program][text]") {
  const Labelled texts;
  must(texts.run({"eval", "run", "--weights=exported.safetensors"}));
  texts.write("bake", "dance");
  for (const char* weights : {"best", "exported.safetensors"})
    CHECK_THAT(refused(texts.run({"eval", "run", "--weights", weights})), Contains("classes"));
  for (const char* split : {"train.tsv", "validation.tsv", "test.tsv"}) fs::remove(texts / split);
  CHECK_THAT(must(texts.run({"inspect", "run", "--casts", "--weights=exported.safetensors"})).out,
             Contains("batches are noise"));
}

TEST_CASE("a run with the vocabulary of another takes weights that no run saved", "[program][text]") {
  const Labelled texts;
  must(texts.run({"train", "config.json", "-q", "run_dir=second",
                  R"(init_from={"path":"run","vocabulary":"from run"})"}));
  must(texts.run({"export", "second", "--format=safetensors", "--out=second.safetensors"}));
  fs::remove_all(texts / "run");
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"eval", "second"}, {"inspect", "second", "--casts"}, {"inspect", "second", "--blame"}}) {
    INFO(command[0] << " " << command.back());
    must(texts.run(command));
    must(texts.run(joined(command, {"--weights=second.safetensors"})));
  }
}
