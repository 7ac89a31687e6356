// Question answering from the user's view: training in every precision, a resumed and a killed run, answers
// with their places, questions without answer, a start from a masked language model.
#include <fmt/core.h>

#include <cmath>

#include "core/random.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
using Json = nlohmann::json;

namespace {

std::string filler(tandem::RandomStream& random) {
  static constexpr const char* kFiller[] = {"and", "then", "so", "again", "it", "was", "late"};
  std::string text;
  for (std::uint32_t i = random.below(20); i > 0; --i) text += std::string(kFiller[random.below(7)]) + " ";
  return text;
}

// "Ä. then so anna likes tea. it was late ": what is liked is asked for. Some contexts are longer than the
// model reads. With `impossible`, every fourth says that nothing is liked, which has no answer.
Json questions_file(int contexts, std::uint32_t seed, bool impossible) {
  static constexpr const char* kPeople[] = {"anna", "boris", "clara"};
  static constexpr const char* kThings[] = {"tea", "jam", "rye", "figs", "nuts", "ham"};
  tandem::RandomStream random({.seed = seed, .purpose = tandem::RandomPurpose::synthetic_data});
  Json paragraphs = Json::array();
  for (int c = 0; c < contexts; ++c) {
    const std::string person = kPeople[random.below(3)];
    const bool none = impossible && c % 4 == 3;
    const std::string thing = none ? "nothing" : kThings[random.below(6)];
    const std::string before = "Ä. " + filler(random) + person + " likes ";
    Json question{{"id", fmt::format("{}-{}", seed, c)},
                  {"question", fmt::format("What likes {}?", person)},
                  {"answers", Json::array()},
                  {"is_impossible", none}};
    if (!none)  // Ä has two bytes
      question["answers"].push_back({{"text", thing}, {"answer_start", static_cast<int>(before.size()) - 1}});
    const std::string context = before + thing + ". " + filler(random);
    paragraphs.push_back({{"context", context}, {"qas", Json::array({question})}});
  }
  return {{"version", "v2.0"}, {"data", {{{"title", "likes"}, {"paragraphs", paragraphs}}}}};
}

Json answers_config() {
  return {
      {"task", "question_answering"},
      {"model",
       {{"name", "bert"}, {"num_layers", 2}, {"width", 32}, {"heads", 2}, {"context", 32}, {"dropout", 0.1}}},
      {"data",
       {{"name", "squad"},
        {"train", "train.json"},
        {"test", "test.json"},
        {"codec", {{"name", "wordpiece"}, {"size", 100}, {"min_count", 1}}},
        {"max_question", 8},
        {"batch_size", 16}}},
      {"optimizer", {{"name", "adamw"}, {"lr", 0.003}}},
      {"epochs", 2},
      {"threads", 1},
      {"tensorboard", false}};
}

class Answers : public Project {
 public:
  explicit Answers(const Json& patch = Json::object(), bool impossible = true, int contexts = 120)
      : Project(answers_config(), patch) {
    write("train.json", questions_file(contexts, 1, impossible).dump());
    write("test.json", questions_file(20, 2, impossible).dump());
  }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(*this / name, std::ios::binary) << contents;
  }
};

const Json kWithoutDropout{{"model", {{"dropout", 0.0}, {"attention_dropout", 0.0}}}};

}  // namespace

TEST_CASE("a model learns to answer questions, and where there is no answer", "[program][answers]") {
  Json patch = kWithoutDropout;
  patch.merge_patch({{"epochs", 10}, {"eval", {{"predictions", true}, {"every_epochs", 10}}}});
  const Answers answers(patch, true);
  answers.must_train("run", {"precision=amp_bf16"});
  const Json last = answers.events("run", "eval").back()["metrics"];
  CHECK(last["f1"].get<double>() > 0.9);
  CHECK(last["exact_match"].get<double>() > 0.9);
  const Json predictions = Json::parse(read_text(answers / "run/predictions.json"));
  CHECK(predictions.size() == 20);
  CHECK(predictions.at("2-3") == "");

  const auto asked = [&](const std::string& context, const std::vector<std::string>& more = {}) {
    return answers.must(joined({"predict", "run", context, "--question", "What likes anna?"}, more)).out;
  };
  answers.write("context.txt", "Ä. it was Anna likes JAM. so it was late\n");
  CHECK_THAT(asked("context.txt"), Catch::StartsWith("What likes anna?  JAM "));
  const Json one = Json::parse(asked("context.txt", {"--json", "--top", "3"}));
  CHECK(one["answer"] == "JAM");
  CHECK(one["predictions"].size() == 3);
  CHECK(one["predictions"][0]["start"] == 21);
  CHECK(one["predictions"][0]["probability"].get<double>() > 0.5);
  const std::string nothing = "it was anna likes nothing. so it was late";
  CHECK_THAT(asked(nothing), Contains("(no answer)"));
  CHECK(Json::parse(asked(nothing, {"--json"}))["answer"].is_null());
  CHECK_THAT(asked(nothing, {"--threshold", "1000"}), !Contains("(no answer)"));
  answers.must({"predict", "run", "test.json", "--out", "again.json"});
  CHECK(Json::parse(read_text(answers / "again.json")) == predictions);
  CHECK_THAT(answers.refused({"predict", "run", "--question", "Who?"}), Contains("inputs are missing"));
  CHECK_THAT(answers.refused({"predict", "run", "x", "--question", " "}), Contains("--question is empty"));
  CHECK_THAT(answers.refused({"predict", "run", "test.json", "test.json"}),
             Contains("another input has this id"));
  CHECK_THAT(answers.refused({"predict", "run", "context.txt"}), Contains("context.txt") && Contains("JSON"));
}

TEST_CASE("an answer is scored for its question", "[program][answers]") {
  const Answers answers(kWithoutDropout, true, 16);
  answers.must_train("run", {"epochs=1"});
  const auto probability = [&](const std::string& question) {
    const std::string out =
        answers.must({"predict", "run", "anna likes tea", "--question", question, "--json"}).out;
    return Json::parse(out)["predictions"][0]["probability"].get<double>();
  };
  // As many pieces, so that the context is at the same positions.
  CHECK(std::abs(probability("What likes anna?") - probability("anna likes What?")) > 1e-6);
}

TEST_CASE("question answering goes on to the bit in the middle of an epoch", "[program][answers]") {
  const Answers answers;
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    answers.check_goes_on("-" + precision, {"precision=" + precision, "checkpoint.every_steps=1"}, 13);
  }
}

TEST_CASE("question answering that is killed again and again ends as if it had not been",
          "[program][answers]") {
  const Answers answers(Json{{"checkpoint", {{"every_steps", 1}}}});
  answers.must_train("whole", {"precision=amp_bf16"});
  CHECK(answers.train_killed("killed", {"precision=amp_bf16"}, 1500, 3000) > 1);
  CHECK(answers.same_end("whole", "killed"));
}

TEST_CASE("every command takes question answering", "[program][answers]") {
  const Answers answers(Json::object(), false);
  answers.must_train("run");
  answers.check_commands({{"predict", "run", "anna likes tea.", "--question", "What likes anna?"}});
  CHECK_THAT(answers.must({"train", "config.json", "--dry-run"}).out,
             Contains("120 questions to train on") && Contains("16 windows of up to"));
  CHECK_THAT(answers.refused_to_train({"data.codec=words"}), Contains("use wordpiece"));
  CHECK_THAT(answers.refused_to_train({"data.train=none.json"}), Contains("none.json"));
  CHECK_THAT(answers.refused({"predict", "run", "x", "--prompt", "y"}), Contains("takes no --prompt"));
}

TEST_CASE("question answering starts from a masked language model", "[program][answers]") {
  const Answers answers;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "what likes anna? boris likes tea.\n";
  answers.write("text.txt", text);
  Json masked = answers_config();
  masked["task"] = "masked_language";
  masked["data"] = {{"name", "text"},
                    {"train", "text.txt"},
                    {"test", "text.txt"},
                    {"batch_size", 8},
                    {"codec", {{"name", "wordpiece"}, {"size", 60}}},
                    {"validation_fraction", 0.0}};
  answers.write("masked.json", masked.dump());
  answers.must({"train", "masked.json", "run_dir=masked", "epochs=1"});
  const Outcome tuned =
      answers.must({"train", "config.json", "run_dir=tuned", "epochs=1",
                    R"(init_from={"path": "masked", "strict": false, "vocabulary": "from run"})"});
  CHECK_THAT(tuned.out + tuned.err, Contains("tensors loaded") && Contains("missing: qa_outputs.weight"));
}
