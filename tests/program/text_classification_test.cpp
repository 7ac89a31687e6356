// Text classifiers from the user's view: labelled lines by their path, a resumed run, prediction, export.
#include <fmt/core.h>

#include "core/random.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
using Json = nlohmann::json;

namespace {

// What a text is of is told by one of its words, which stands among others of no meaning.
std::string lines(int count, std::uint32_t seed) {
  static constexpr const char* kClasses[] = {"cooking", "music", "weather"};
  static constexpr const char* kTelling[][2] = {{"oven", "salt"}, {"choir", "violin"}, {"rain", "frost"}};
  static constexpr const char* kOthers[] = {"we", "heard", "of", "the", "old", "house", "again"};
  tandem::RandomStream random({.seed = seed, .purpose = tandem::RandomPurpose::synthetic_data});
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t label = random.below(3), words = 2 + random.below(9), place = random.below(words);
    text += fmt::format("{}\t", kClasses[label]);
    for (std::uint32_t w = 0; w < words; ++w)
      text += fmt::format("{} ", w == place ? kTelling[label][random.below(2)] : kOthers[random.below(7)]);
    text += '\n';
  }
  return text;
}

Json config() {
  return {{"task", "text_classification"},
          {"model", {{"name", "text_classifier"}, {"embedding", 8}, {"units", 8}, {"dropout", 0.1}}},
          {"data",
           {{"name", "labelled_lines"},
            {"train", "train.tsv"},
            {"validation", "validation.tsv"},
            {"test", "test.tsv"},
            {"batch_size", 16}}},
          {"optimizer", {{"name", "adam"}, {"lr", 0.02}}},
          {"epochs", 2},
          {"threads", 1},
          {"tensorboard", false}};
}

class Texts : public Project {
 public:
  explicit Texts(const Json& patch = Json::object()) : Project(config(), patch) {
    write("train.tsv", lines(300, 1));
    write("validation.tsv", lines(60, 2));
    write("test.tsv", lines(60, 3));
  }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(*this / name, std::ios::binary) << contents;
  }
};

}  // namespace

TEST_CASE("a classifier of texts learns labelled lines in every precision", "[program][text]") {
  const Texts texts(Json{{"epochs", 8}, {"model", {{"dropout", 0.0}}}});
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    texts.must_train(precision, {"precision=" + precision});
    const Json last = texts.events(precision, "eval").back()["metrics"];
    CHECK(last["accuracy"].get<double>() > 0.95);
    CHECK(last["loss"].get<double>() < 0.3);
    CHECK_FALSE(last.contains("top5"));
  }
}

TEST_CASE("a classifier of texts goes on to the bit in the middle of an epoch", "[program][text]") {
  const Texts texts;
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    texts.check_goes_on("-" + precision, {"precision=" + precision, "checkpoint.every_steps=1"}, 25);
  }
}

TEST_CASE("a classifier of texts that is killed again and again ends as if it had not been",
          "[program][text]") {
  const Texts texts(Json{{"checkpoint", {{"every_steps", 1}}}, {"epochs", 4}});
  const std::vector<std::string> common{
      "precision=amp_fp16",
      R"(precision.scaler={"mode": "dynamic", "initial": 4294967296, "ceiling": 4294967296, "interval": 7})"};
  texts.must_train("whole", common);
  CHECK(texts.events("whole", "step").back()["skipped"].get<int>() > 0);
  CHECK(texts.train_killed("killed", common, 1500, 5000) > 1);
  CHECK(texts.same_end("whole", "killed"));
}

TEST_CASE("steps of a classifier of texts that overflow are retried with the batch they began with",
          "[program][text]") {
  const Texts texts(Json{{"epochs", 1}, {"model", {{"dropout", 0.0}}}});
  texts.check_retries();
}

TEST_CASE("a classifier of texts tells texts and lines of files", "[program][text]") {
  const Texts texts(Json{{"epochs", 8}, {"model", {{"dropout", 0.0}}}, {"eval", {{"confusion", true}}}});
  texts.must_train("run");
  CHECK_THAT(read_text(texts / "run/confusion.csv"),
             Catch::StartsWith("true\\predicted,cooking,music,weather\n"));
  CHECK_THAT(texts.must({"predict", "run", "the old choir again", "salt of the house"}).out,
             Contains("the old choir again  music ") && Contains("salt of the house  cooking "));
  texts.write("more.txt", "we heard rain\r\n\nthe oven");
  const std::string out = texts.must({"predict", "run", "more.txt", "--json", "--top", "2"}).out;
  std::vector<Json> answers;
  for (std::size_t at = 0; at < out.size(); at = out.find('\n', at) + 1)
    answers.push_back(Json::parse(out.substr(at, out.find('\n', at) - at)));
  REQUIRE(answers.size() == 3);
  CHECK(answers[0]["input"] == "we heard rain");
  CHECK(answers[0]["predictions"].size() == 2);
  CHECK(answers[0]["predictions"][0]["name"] == "weather");
  CHECK(answers[0]["predictions"][0]["class"] == 2);
  CHECK(answers[1]["input"] == "");
  CHECK(answers[2]["predictions"][0]["name"] == "cooking");
  CHECK(Json::parse(texts.must({"predict", "run", "unheard rain", "--json"}).out)["unknown"] == 1);
  CHECK_THAT(texts.refused({"predict", "run"}), Contains("inputs are missing"));
  CHECK_THAT(texts.refused({"predict", "run", "run"}), Contains("run") && Contains("folder"));
  CHECK_THAT(texts.refused({"predict", "run", "rain", "--prompt", "we"}), Contains("takes no --prompt"));
}

TEST_CASE("a classifier of texts is exported with its words and classes", "[program][text]") {
  const Texts texts;
  texts.must_train("run");
  texts.must({"export", "run", "--format", "onnx"});
  const std::string file = read_text(texts / "run/exports/best.onnx");
  for (const char* word :
       {"words", "lengths", "logits", "LSTM", "reverse", "classifier.weight", "tandem.words",
        R"(["cooking","music","weather"])", "violin", "tandem.tokenizer", "tandem.max_words"})
    CHECK_THAT(file, Contains(word));
}

TEST_CASE("every command takes a classifier of texts", "[program][text]") {
  const Texts texts(Json{{"tensorboard", true}});
  texts.must_train("run");
  texts.check_commands({{"predict", "run", "rain"}});
  CHECK_THAT(texts.run({"train", "config.json", "--dry-run"}).out, Contains("300 texts to train on") &&
                                                                       Contains("% of an epoch is text") &&
                                                                       Contains("16 texts of up to"));
  CHECK_THAT(read_text(texts / "run/report.html"), Contains("accuracy"));
}

TEST_CASE("errors of labelled lines come before training", "[program][text]") {
  const Texts texts;
  CHECK_THAT(texts.refused_to_train({"data.train=missing.tsv"}), Contains("missing.tsv"));
  texts.write("wrong.tsv", "music\tchoir\ncooking salt\n");
  CHECK_THAT(texts.refused_to_train({"data.test=wrong.tsv"}), Contains("wrong.tsv:2") && Contains("no tab"));
  texts.write("other.tsv", "musik\tchoir\n");
  CHECK_THAT(texts.refused_to_train({"data.test=other.tsv"}), Contains("other.tsv:1") && Contains("musik"));
  CHECK_THAT(texts.refused_to_train({"data.max_words=0"}), Contains("data.max_words"));
  CHECK_THAT(texts.refused_to_train({R"(model={"name": "mlp"})"}), Contains("text_classifier"));
  CHECK_THAT(texts.refused_to_train({R"(data={"name": "package_sections", "path": "absent"})"}),
             Contains("absent") && Contains("./run data"));
}
