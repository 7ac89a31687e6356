// Language models from the user's view: a text by its path, state carried through an epoch, a resumed run,
// generated text.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

// Lines of a tiny language: who does what, the verb of each subject always the same.
std::string text(int lines, std::uint32_t seed) {
  static constexpr const char* kSubjects[] = {"cats", "dogs", "birds", "fish"};
  static constexpr const char* kVerbs[] = {"chase", "guard", "watch", "avoid"};
  static constexpr const char* kObjects[] = {"mice", "doors", "clouds", "hooks", "boats"};
  tandem::RandomStream random({.seed = seed, .purpose = tandem::RandomPurpose::synthetic_data});
  std::string lines_of_text;
  for (int i = 0; i < lines; ++i) {
    const std::uint32_t subject = random.below(4);
    lines_of_text +=
        fmt::format("{} {} {}\n", kSubjects[subject], kVerbs[subject], kObjects[random.below(5)]);
  }
  return lines_of_text;
}

Json config() {
  return {{"task", "language"},
          {"model",
           {{"name", "language_model"},
            {"embedding", 16},
            {"units", 16},
            {"num_layers", 2},
            {"dropout", 0.2},
            {"tied", true}}},
          {"data",
           {{"name", "text"},
            {"train", "train.txt"},
            {"validation", "validation.txt"},
            {"test", "test.txt"},
            {"batch_size", 4},
            {"steps", 7},
            {"eval_batch_size", 2}}},
          {"optimizer", {{"name", "adam"}, {"lr", 0.01}}},
          {"clip_norm", 1.0},
          {"epochs", 3},
          {"threads", 1},
          {"tensorboard", false}};
}

class Language : public Project {
 public:
  explicit Language(const Json& patch = Json::object()) : Project(config(), patch) {
    write("train.txt", text(180, 1));
    write("validation.txt", text(40, 2));
    write("test.txt", text(40, 3));
  }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(*this / name, std::ios::binary) << contents;
  }
};

const std::string kSmallScale = R"(precision.scaler={"mode": "dynamic", "initial": 1024, "interval": 5})";

}  // namespace

TEST_CASE("a language model learns a text by its path in every precision", "[program][language]") {
  const Language language(Json{{"epochs", 40}, {"model", {{"dropout", 0.0}}}, {"optimizer", {{"lr", 0.02}}}});
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    language.must_train(precision, {"precision=" + precision});
    const auto evaluations = language.events(precision, "eval");
    const Json& last = evaluations.back()["metrics"];
    // Of four words, the end of the line among them, one has a choice of four and one of five: 20^(1/4)
    // = 2.1.
    CHECK(last["perplexity"].get<double>() < 2.6);
    CHECK(last["perplexity"].get<double>() > 2.1);
    CHECK(last["perplexity"].get<double>() == Approx(std::exp(last["loss"].get<double>())));
    CHECK(last["accuracy"].get<double>() > 0.5);
  }
}

TEST_CASE("the summary of a language model is of its words and steps", "[program][language]") {
  const Language language;
  // 13 words, the unknown one and the end of a line, where up to 10,000 are asked for.
  constexpr int kWords = 15, kUnits = 16, kSteps = 7, kCells = 2 * 4 * kUnits * (kUnits + kUnits);
  const auto check = [&](const char* of) {
    INFO(of);
    const Json json = Json::parse(language.must({"summary", of, "--json"}).out);
    CHECK(json["parameters"] == kWords * kUnits + kWords + kCells + 2 * 2 * 4 * kUnits);
    CHECK(json["steps"] == kSteps);
    CHECK(json["flop"] == 2 * kSteps * (kCells + kUnits * kWords));
  };
  check("config.json");
  language.must_train("run", {"epochs=1"});
  for (const char* file : {"train.txt", "validation.txt", "test.txt"})
    std::filesystem::remove(language / file);
  check("run");
  const Outcome without = language.must({"summary", "config.json"});
  CHECK_THAT(without.err, Contains("the vocabulary is assumed to have its maximum size"));
}

TEST_CASE("a language model goes on to the bit in the middle of an epoch, its state with it",
          "[program][language]") {
  const Language language;
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    std::vector<std::string> common{"precision=" + precision, "checkpoint.every_steps=1"};
    if (precision == "amp_fp16") common.push_back(kSmallScale);
    language.check_goes_on("-" + precision, common, 9);
  }
}

TEST_CASE("a language model that is killed again and again ends as if it had not been",
          "[program][language]") {
  const Language language(Json{{"checkpoint", {{"every_steps", 1}}}, {"epochs", 6}});
  const std::vector<std::string> common{
      "precision=amp_fp16", "data.random_steps=true",
      R"(precision.scaler={"mode": "dynamic", "initial": 4294967296, "ceiling": 4294967296, "interval": 7})"};
  language.must_train("whole", common);
  CHECK(language.events("whole", "step").back()["skipped"].get<int>() > 0);
  CHECK(language.train_killed("killed", common, 1500, 8000) > 1);
  CHECK(language.same_end("whole", "killed"));
}

TEST_CASE("steps of a language model that overflow are retried from the state they began with",
          "[program][language]") {
  const Language language(Json{{"epochs", 1}, {"model", {{"dropout", 0.0}}}});
  language.check_retries();
}

TEST_CASE("a language model writes text from a prompt", "[program][language]") {
  const Language language(Json{{"epochs", 40}, {"model", {{"dropout", 0.0}}}, {"optimizer", {{"lr", 0.02}}}});
  language.must_train("run");
  const auto written = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "run"});
    return language.must(more).out;
  };
  CHECK_THAT(written({"--prompt", "dogs", "--count", "2", "--temperature", "0"}),
             Catch::StartsWith("dogs guard "));
  CHECK_THAT(written({"--prompt", "fish", "--count", "2", "--top", "1"}), Catch::StartsWith("fish avoid "));
  const std::string once = written({"--count", "40", "--seed", "7"});
  CHECK(once == written({"--count", "40", "--seed", "7"}));
  const Json json = Json::parse(written({"--prompt", "dogs bark", "--count", "3", "--json"}));
  CHECK(json["unknown"] == 1);
  CHECK_THAT(json["text"].get<std::string>(), Catch::StartsWith("dogs bark"));
  // So many words, across the ends of lines, unless a text stops them.
  const auto words_in = [](const std::string& text) {
    return std::ranges::count_if(text, [](char c) { return c == ' ' || c == '\n'; });
  };
  const std::string many = written({"--prompt", "dogs", "--count", "80", "--seed", "3"});
  CHECK(words_in(many) >= 60);
  CHECK(std::ranges::count(many, '\n') > 10);
  const std::string line = written({"--prompt", "dogs", "--count", "80", "--seed", "3", "--stop", "\\n"});
  CHECK(line == many.substr(0, many.find('\n') + 1));
  const std::string stopped =
      written({"--prompt", "dogs", "--count", "80", "--seed", "3", "--stop", " guard"});
  CHECK(stopped == many.substr(0, many.find(" guard")) + "\n");
  const Outcome unknown = language.must({"predict", "run", "--prompt", "dogs bark", "--count", "1"});
  CHECK_THAT(unknown.err, Contains("1 of the prompt's 2 words are not known"));
  CHECK_THAT(language.refused({"predict", "run", "image.png"}), Contains("takes no inputs"));
  CHECK_THAT(language.refused({"predict", "run", "--temperature", "-1"}), Contains("--temperature"));
}

TEST_CASE("a GPT trains on windows, goes on to the bit and writes text", "[program][language]") {
  const Language language(Json{{"model",
                                {{"name", "gpt"},
                                 {"num_layers", 2},
                                 {"width", 32},
                                 {"heads", 4},
                                 {"context", 16},
                                 {"embedding", nullptr},
                                 {"units", nullptr}}},
                               {"data", {{"steps", nullptr}}},
                               {"optimizer", {{"lr", 0.003}}},
                               {"epochs", 40}});
  for (const std::string precision : {"fp32", "amp_bf16"}) {
    INFO(precision);
    language.check_goes_on("-" + precision, {"precision=" + precision, "epochs=2"}, 5);
  }
  language.must_train("run", {"model.dropout=0"});
  CHECK(language.events("run", "eval").back()["metrics"]["perplexity"].get<double>() < 3.0);
  const auto written = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "run"});
    return language.must(more).out;
  };
  CHECK_THAT(written({"--prompt", "dogs", "--count", "2", "--temperature", "0"}),
             Catch::StartsWith("dogs guard "));
  // Longer than the context; a shorter text is its beginning.
  const std::vector<std::string> sampled{"--prompt", "fish", "--seed",        "5",
                                         "--top-p",  "0.9",  "--temperature", "0.8"};
  const auto with_count = [&](const char* count) {
    std::vector<std::string> more = sampled;
    more.insert(more.end(), {"--count", count});
    const std::string text = written(more);
    return text.substr(0, text.size() - 1);
  };
  const std::string longer = with_count("50");
  CHECK(longer.size() > 200);
  CHECK_THAT(longer, Catch::StartsWith(with_count("20")));
  std::string prompt;
  for (int i = 0; i < 17; ++i) prompt += "dogs ";
  CHECK_THAT(language.refused({"predict", "run", "--prompt", prompt}),
             Contains("the prompt has 17 words, but the model reads 16 at most"));
  CHECK_THAT(language.refused({"predict", "run", "--top-p", "1.5"}), Contains("--top-p"));
  CHECK_THAT(language.refused({"predict", "run", "--prompt", ""}),
             Contains("the prompt is empty; leave out --prompt"));
  const std::vector<std::string> short_run{"epochs=2", "checkpoint.every_steps=1", "precision=amp_bf16"};
  language.must_train("whole", short_run);
  CHECK(language.train_killed("killed", short_run, 1500, 3000) > 1);
  CHECK(language.same_end("whole", "killed"));
  for (const std::string opset : {"17", "23"}) {
    language.must({"export", "run", "--format", "onnx", "--opset", opset});
    const std::string file = read_text(language / "run/exports/best.onnx");
    for (const char* word :
         {"input_ids", "position_ids", "past_key_values.1.value", "present.0.key", "P + T", "logits",
          "h.1.attn.c_attn.weight", "tandem.words", R"(["<unk>","<end>",)", "tandem.context"})
      CHECK_THAT(file, Contains(word));
    CHECK((file.find("attn/Attention") != std::string::npos) == (opset == "23"));
  }
  CHECK_THAT(language.refused({"export", "run", "--format", "onnx", "--opset", "18"}), Contains("--opset"));
  CHECK_THAT(language.refused({"export", "run", "--format", "npz", "--opset", "23"}),
             Contains("--opset works only with --format onnx"));
}

TEST_CASE("a language model of subwords carries its codec", "[program][language]") {
  const Language language(Json{{"epochs", 12}, {"model", {{"dropout", 0.0}}}, {"optimizer", {{"lr", 0.02}}}});
  language.write("vocab.txt",
                 "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncats\ndog\n##s\nguard\nfish\navoid\nwatch\n");
  language.must_train("bytes", {R"(data.codec={"name": "byte_bpe", "size": 290})"});
  language.must_train("words", {R"(data.codec={"name": "wordpiece", "vocab": "vocab.txt"})"});
  for (const char* run : {"bytes", "words"}) language.must({"eval", run});
  fs::remove(language / "vocab.txt");
  for (const char* run : {"bytes", "words"}) {
    CAPTURE(run);
    CHECK_THAT(language.must({"predict", run, "--prompt", "dogs", "--count", "2", "--temperature", "0"}).out,
               Catch::StartsWith("dogs guard"));
  }
  const Json json = Json::parse(
      language.must({"predict", "bytes", "--prompt", "fish \n\n日", "--count", "3", "--json"}).out);
  CHECK(json["unknown"] == 0);
  CHECK_THAT(json["text"].get<std::string>(), Catch::StartsWith("fish \n\n日"));
  CHECK_THAT(language.refused_to_train({R"(data.codec={"name": "wordpiece", "vocab": "vocab.txt"})"}),
             Contains("vocab.txt"));
  CHECK_THAT(language.refused_to_train({R"(data.codec={"name": "byte_bpe"})"}),
             Contains("set exactly one of these"));
}

TEST_CASE("a language model is fine-tuned on a text of other words", "[program][language]") {
  const Language language(Json{{"epochs", 40}, {"model", {{"dropout", 0.0}}}, {"optimizer", {{"lr", 0.02}}}});
  language.must_train("run");
  const double learnt = language.events("run", "eval").back()["metrics"]["perplexity"].get<double>();
  // Other words come most often, so that every word has another number.
  std::string more = text(90, 4);
  for (int i = 0; i < 120; ++i) more += "clouds avoid horses and horses avoid hooks\n";
  language.write("more.txt", more);
  const std::vector<std::string> onward{"data.train=more.txt", "init_from.path=run", "epochs=1",
                                        "optimizer.lr=1e-7"};
  const auto perplexity = [&](const std::string& run, const std::vector<std::string>& besides) {
    std::vector<std::string> settings = onward;
    settings.insert(settings.end(), besides.begin(), besides.end());
    language.must_train(run, settings);
    return language.events(run, "eval").back()["metrics"]["perplexity"].get<double>();
  };
  CHECK(perplexity("tuned", {}) < 1.5 * learnt);
  CHECK_THAT(read_text(language / "tuned/log.txt"),
             Contains("words: 15 of 17 are taken from the weights by name, 2 are new"));
  CHECK(perplexity("same", {"init_from.vocabulary=from run"}) == Approx(learnt).epsilon(1e-3));
  // What was tuned stands for itself.
  fs::remove_all(language / "run");
  for (const char* run : {"tuned", "same"}) {
    language.must({"eval", run});
    CHECK_THAT(language.must({"predict", run, "--prompt", "dogs", "--count", "1", "--temperature", "0"}).out,
               Catch::StartsWith("dogs guard"));
  }
}

TEST_CASE("a language model is exported with its words", "[program][language]") {
  const Language language(Json{{"epochs", 1}});
  language.must_train("run");
  language.must({"export", "run", "--format", "onnx"});
  const std::string file = read_text(language / "run/exports/best.onnx");
  for (const char* word :
       {"words", "h_0", "c_n", "logits", "LSTM", "tandem.words", R"(["<unk>","<end>",)", "tandem.tokenizer"})
    CHECK_THAT(file, Contains(word));
  const Language projected(
      Json{{"epochs", 1}, {"model", {{"tied", false}, {"units", 20}, {"projection", 16}}}});
  projected.must_train("run");
  CHECK_THAT(projected.refused({"export", "run", "--format", "onnx"}), Contains("projection"));
  projected.must({"export", "run", "--format", "safetensors"});
}

TEST_CASE("every command takes a language model", "[program][language]") {
  const Language language(Json{{"tensorboard", true}});
  language.must_train("run");
  language.check_commands({});
  CHECK_THAT(language.run({"train", "config.json", "--dry-run"}).out,
             Contains("720 words to train on") && Contains("7 steps of 4 streams"));
  CHECK_THAT(read_text(language / "run/report.html"), Contains("perplexity"));
}

TEST_CASE("errors of a language model or its text come before training", "[program][language]") {
  const Language language;
  CHECK_THAT(language.refused_to_train({"data.train=missing.txt"}), Contains("missing.txt"));
  language.write("empty.txt", "");
  CHECK_THAT(language.refused_to_train({"data.train=empty.txt"}), Contains("empty.txt"));
  language.write("broken.txt", "good line\nbad \xff byte\n");
  CHECK_THAT(language.refused_to_train({"data.train=broken.txt"}), Contains("broken.txt:2"));
  CHECK_THAT(language.refused_to_train({"data.steps=0"}), Contains("data.steps"));
  CHECK_THAT(language.refused_to_train({"data.batch_size=5000"}), Contains("streams"));
  CHECK_THAT(language.refused_to_train({"data.vocabulary.size=2"}), Contains("vocabulary"));
  CHECK_THAT(language.refused_to_train({R"(model={"name": "mlp"})"}), Contains("language_model"));
  CHECK_THAT(language.refused_to_train({"model.embedding=8"}), Contains("tied"));
  CHECK_THAT(language.refused_to_train({"model.cell=gru", "model.projection=4", "model.tied=false"}),
             Contains("only lstm"));
}
