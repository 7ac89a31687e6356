// Masked language models from the user's view: training in every precision, a resumed and a killed run,
// filling of masks, fine-tuning of a classifier from the weights.
#include <fmt/core.h>

#include "core/random.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
using Json = nlohmann::json;

namespace {

// Sentences in which each word decides the others.
std::string sentences(int count, std::uint32_t seed) {
  static constexpr const char* kSentences[] = {"the cook puts salt into the soup",
                                               "a choir sings in the church", "rain falls from a grey sky",
                                               "my neighbour plays the violin loudly"};
  tandem::RandomStream random({.seed = seed, .purpose = tandem::RandomPurpose::synthetic_data});
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}\n", kSentences[random.below(4)]);
  return text;
}

Json masked_config() {
  return {
      {"task", "masked_language"},
      {"model",
       {{"name", "bert"}, {"num_layers", 1}, {"width", 16}, {"heads", 2}, {"context", 16}, {"dropout", 0.1}}},
      {"data",
       {{"name", "text"},
        {"train", "train.txt"},
        {"validation", "validation.txt"},
        {"test", "validation.txt"},
        {"codec", {{"name", "wordpiece"}, {"size", 200}}},
        {"batch_size", 16}}},
      {"optimizer", {{"name", "adamw"}, {"lr", 0.01}}},
      {"epochs", 2},
      {"threads", 1},
      {"tensorboard", false}};
}

class MaskedTexts : public Project {
 public:
  explicit MaskedTexts(const Json& patch = Json::object()) : Project(masked_config(), patch) {
    write("train.txt", sentences(160, 1));
    write("validation.txt", sentences(20, 2));
  }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(*this / name, std::ios::binary) << contents;
  }
};

}  // namespace

TEST_CASE("a masked language model learns, fills masks, and starts a classifier", "[program][masked]") {
  const MaskedTexts texts(Json{{"epochs", 25}, {"model", {{"dropout", 0.0}, {"attention_dropout", 0.0}}}});
  texts.must_train("run", {"precision=amp_bf16"});
  const Json last = texts.events("run", "eval").back()["metrics"];
  CHECK(last["accuracy"].get<double>() > 0.9);
  texts.must({"export", "run", "--format", "onnx"});
  const std::string exported = read_text(texts / "run/exports/best.onnx");
  for (const char* word : {"input_ids", "lengths", "logits", "cls.predictions.bias", "tandem.context",
                           "tandem.codec", R"("name":"wordpiece")"})
    CHECK_THAT(exported, Contains(word));
  CHECK_FALSE(last.contains("next_accuracy"));
  const Json filled =
      Json::parse(texts.must({"predict", "run", "the cook puts [MASK] into the soup", "--json"}).out);
  CHECK(filled["mask"] == 0);
  CHECK(filled["predictions"][0]["name"] == "salt");
  CHECK_THAT(texts.refused({"predict", "run", "no mask"}), Contains("has no [MASK]"));
  CHECK_THAT(
      texts.refused(
          {"predict", "run",
           "rain falls rain falls rain falls rain falls rain falls rain falls rain falls [MASK] rain"}),
      Contains("pieces, the model reads at most 16"));

  std::string labelled;
  for (int i = 0; i < 40; ++i)
    labelled +=
        i % 2 == 0 ? "food\tthe cook puts salt into the soup\n" : "music\tmy neighbour plays the violin\n";
  texts.write("labelled.tsv", labelled);
  texts.write("classes.json",
              Json{{"task", "text_classification"},
                   {"model", masked_config()["model"]},
                   {"data",
                    {{"name", "labelled_lines"},
                     {"train", "labelled.tsv"},
                     {"test", "labelled.tsv"},
                     {"max_words", 14},
                     {"batch_size", 8}}},
                   {"init_from", {{"path", "run"}, {"strict", false}, {"vocabulary", "from run"}}},
                   {"optimizer", {{"name", "adamw"}, {"lr", 0.003}}},
                   {"epochs", 3},
                   {"threads", 1},
                   {"tensorboard", false}}
                  .dump());
  const Outcome tuned = texts.must({"train", "classes.json", "run_dir=tuned"});
  CHECK_THAT(tuned.out + tuned.err,
             Contains("tensors loaded") && Contains("missing: bert.pooler.dense.weight"));
  CHECK(texts.events("tuned", "eval").back()["metrics"]["accuracy"].get<double>() == 1.0);
}

TEST_CASE("a masked language model goes on to the bit in the middle of an epoch", "[program][masked]") {
  const MaskedTexts texts(Json{{"model", {{"next_sentence", true}}}});
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    texts.check_goes_on("-" + precision, {"precision=" + precision, "checkpoint.every_steps=1"}, 13);
  }
}

TEST_CASE("a masked language model that is killed again and again ends as if it had not been",
          "[program][masked]") {
  const MaskedTexts texts(Json{{"checkpoint", {{"every_steps", 1}}}});
  texts.must_train("whole", {"precision=amp_bf16"});
  CHECK(texts.train_killed("killed", {"precision=amp_bf16"}, 1500, 3000) > 1);
  CHECK(texts.same_end("whole", "killed"));
}

TEST_CASE("every command takes a masked language model", "[program][masked]") {
  const MaskedTexts texts;
  texts.must_train("run");
  texts.check_commands({{"predict", "run", "the [MASK] puts salt into the [MASK]", "--top", "3"}});
  CHECK_THAT(texts.must({"train", "config.json", "--dry-run"}).out,
             Contains("% of an epoch is text") && Contains("16 texts of up to"));
  CHECK_THAT(texts.refused_to_train({"model.heads=5"}), Contains("5 heads do not divide the width of 16"));
  CHECK_THAT(texts.refused_to_train({"data.codec=words"}), Contains("has no [MASK] piece; use wordpiece"));
}
