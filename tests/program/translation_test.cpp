// Translators from the user's view: pairs by their path, a resumed run, translated texts.
#include <fmt/core.h>

#include "core/random.h"
#include "tests/program/project.h"

using namespace tandem::testing;
using Catch::Contains;
using Json = nlohmann::json;

namespace {

// Numbers in digits, and their digits as words, the last one first.
std::string pairs(int count, std::uint32_t seed) {
  static constexpr const char* kWords[] = {"nought", "one", "two", "three", "four"};
  tandem::RandomStream random({.seed = seed, .purpose = tandem::RandomPurpose::synthetic_data});
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::string source, target;
    for (std::uint32_t k = 0, digits = 1 + random.below(4); k < digits; ++k) {
      const std::uint32_t digit = random.below(5);
      source += std::to_string(digit);
      target = target.empty() ? kWords[digit] : std::string(kWords[digit]) + " " + target;
    }
    text += source + '\t' + target + '\n';
  }
  return text;
}

Json config() {
  return {{"task", "translation"},
          {"model",
           {{"name", "encoder_decoder"},
            {"embedding", 16},
            {"units", 24},
            {"encoder_layers", 1},
            {"decoder_layers", 2},
            {"dropout", 0.1}}},
          {"data",
           {{"name", "text_pairs"},
            {"train", {{"table", "train.tsv"}}},
            {"validation", {{"table", "validation.tsv"}}},
            {"test", {{"table", "test.tsv"}}},
            {"source_codec", "characters"},
            {"target_codec", "spaces"},
            {"max_length", 8},
            {"batch_size", 16}}},
          {"optimizer", {{"name", "adam"}, {"lr", 0.02}}},
          {"clip_norm", 1.0},
          {"epochs", 2},
          {"threads", 1},
          {"tensorboard", false}};
}

class Pairs : public Project {
 public:
  explicit Pairs(const Json& patch = Json::object()) : Project(config(), patch) {
    write("train.tsv", pairs(400, 1));
    write("validation.tsv", pairs(30, 2));
    write("test.tsv", pairs(30, 3));
  }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(*this / name, std::ios::binary) << contents;
  }
};

// Changes config() to a Transformer.
const Json kTransformer = {{"model",
                            {{"name", "transformer"},
                             {"embedding", nullptr},
                             {"units", nullptr},
                             {"width", 24},
                             {"heads", 2},
                             {"inner", 48},
                             {"decoder_layers", 1}}},
                           {"optimizer", {{"lr", 0.005}}},
                           {"schedule", {{"name", "inverse_sqrt"}, {"warmup_steps", 20}}}};

// Both patches as one, with the nulls of both.
Json merged(Json config, const Json& patch) {
  config.update(patch, true);
  return config;
}

const Json kLearns = {{"epochs", 12}, {"model", {{"dropout", 0.0}}}};

}  // namespace

TEST_CASE("a translator learns pairs in every precision", "[program][translation]") {
  const Pairs pairs(kLearns);
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    pairs.must_train(precision, {"precision=" + precision});
    const Json last = pairs.events(precision, "eval").back()["metrics"];
    CHECK(last["loss"].get<double>() < 0.3);
    CHECK(last["piece_error_rate"].get<double>() < 0.1);
    CHECK(last["text_error_rate"].get<double>() < 0.25);
    CHECK(last["bleu"].get<double>() > 60.0);
  }
}

TEST_CASE("a Transformer learns pairs, and translates them", "[program][translation]") {
  const Pairs pairs(
      merged(merged(kTransformer, kLearns), {{"epochs", 20}, {"eval", {{"every_epochs", 20}}}}));
  for (const std::string precision : {"fp32", "amp_bf16"}) {
    INFO(precision);
    pairs.must_train(precision, {"precision=" + precision});
    const Json last = pairs.events(precision, "eval").back()["metrics"];
    CHECK(last["loss"].get<double>() < 0.3);
    CHECK(last["piece_error_rate"].get<double>() < 0.1);
  }
  CHECK(pairs.must({"predict", "fp32", "12", "40"}).out == "two one\nnought four\n");
  for (const std::string opset : {"17", "23"}) {
    const std::string out =
        pairs.must({"export", "fp32", "--format", "onnx", "--opset", opset, "--out", "m.onnx", "--json"}).out;
    CHECK(Json::parse(out)["files"] == Json{"m.encoder.onnx", "m.decoder.onnx"});
    for (const char* part : {"encoder", "decoder"}) {
      const std::string file = read_text(pairs / fmt::format("m.{}.onnx", part));
      for (const char* word : {"input_ids", "lengths", "encoder.0.value", "tandem.context", "tandem.begin",
                               "tandem.end", "tandem.max_length", "tandem.source_codec", R"("nought")"})
        CHECK_THAT(file, Contains(word));
      CHECK((file.find("multihead_attn/Attention") != std::string::npos) ==
            (opset == "23" && part == std::string("decoder")));
    }
  }
  CHECK_THAT(pairs.must({"export", "fp32", "--format", "onnx"}).out,
             Contains("fp32/exports/best.encoder.onnx, fp32/exports/best.decoder.onnx: "));
}

TEST_CASE("a translator goes on to the bit in the middle of an epoch", "[program][translation]") {
  const Json model = GENERATE(Json(Json::object()), kTransformer);
  const Pairs pairs(merged(model, {{"data",
                                    {{"codec", {{"name", "bpe"}, {"size", 30}}},
                                     {"source_codec", nullptr},
                                     {"target_codec", nullptr}}}}));
  for (const std::string precision : {"fp32", "amp_fp16", "amp_bf16"}) {
    INFO(precision);
    pairs.check_goes_on("-" + precision, {"precision=" + precision, "checkpoint.every_steps=1"}, 30);
  }
}

TEST_CASE("a translator that is killed again and again ends as if it had not been",
          "[program][translation]") {
  const Pairs pairs(Json{{"checkpoint", {{"every_steps", 1}}}, {"epochs", 3}});
  const std::vector<std::string> common{
      "precision=amp_fp16",
      R"(precision.scaler={"mode": "dynamic", "initial": 4294967296, "ceiling": 4294967296, "interval": 7})"};
  pairs.must_train("whole", common);
  CHECK(pairs.events("whole", "step").back()["skipped"].get<int>() > 0);
  CHECK(pairs.train_killed("killed", common, 1500, 5000) > 1);
  CHECK(pairs.same_end("whole", "killed"));
}

TEST_CASE("steps of a translator that overflow are retried with the batch they began with",
          "[program][translation]") {
  const Pairs pairs(Json{{"epochs", 1}, {"model", {{"dropout", 0.0}}}});
  pairs.check_retries();
}

TEST_CASE("a translator translates texts and lines of files", "[program][translation]") {
  Json learns = kLearns;
  learns["eval"] = {{"translations", true}};
  const Pairs pairs(learns);
  pairs.must_train("run");
  CHECK_THAT(read_text(pairs / "run/translations.tsv"), Contains("\t"));
  CHECK(pairs.must({"predict", "run", "12", "40"}).out == "two one\nnought four\n");
  pairs.write("more.txt", "3\r\n\n01");
  const std::string out = pairs.must({"predict", "run", "more.txt", "--json", "--top", "3"}).out;
  std::vector<Json> answers;
  for (std::size_t at = 0; at < out.size(); at = out.find('\n', at) + 1)
    answers.push_back(Json::parse(out.substr(at, out.find('\n', at) - at)));
  REQUIRE(answers.size() == 3);
  CHECK(answers[0]["input"] == "3");
  REQUIRE(answers[0]["translations"].size() == 3);
  CHECK(answers[0]["translations"][0]["text"] == "three");
  CHECK(answers[0]["translations"][0]["ended"] == true);
  CHECK(answers[0]["translations"][0]["score"].get<double>() >=
        answers[0]["translations"][1]["score"].get<double>());
  CHECK(answers[1]["input"] == "");
  CHECK(answers[2]["translations"][0]["text"] == "one nought");
  CHECK(Json::parse(pairs.must({"predict", "run", "1x", "--json"}).out)["unknown"] == 1);
  CHECK_THAT(pairs.must({"predict", "run", "1x"}).err, Contains("1 pieces of the input are unknown"));
  CHECK_THAT(pairs.must({"predict", "run", "12", "--top", "2"}).out,
             Contains("12\n") && Contains("  two one\n"));
  CHECK_THAT(pairs.refused({"predict", "run"}), Contains("inputs are missing"));
  CHECK_THAT(pairs.refused({"export", "run", "--format", "onnx"}),
             Contains("run cannot be written as onnx: of the models for translation, only transformer"));
  CHECK_THAT(pairs.must({"export", "run", "--format", "safetensors"}).out,
             Contains("exports/best.safetensors"));
  CHECK_THAT(pairs.refused({"predict", "run", "12", "--prompt", "we"}), Contains("takes no --prompt"));
}

TEST_CASE("every command takes a translator", "[program][translation]") {
  const Json model = GENERATE(Json(Json::object()), kTransformer);
  const Pairs pairs(merged(model, {{"tensorboard", true}, {"checkpoint", {{"best", "bleu"}}}}));
  pairs.must_train("run");
  pairs.check_commands({{"predict", "run", "12"}});
  CHECK_THAT(pairs.run({"train", "config.json", "--dry-run"}).out, Contains("400 pairs to train on") &&
                                                                       Contains("% of an epoch is text") &&
                                                                       Contains("16 pairs of up to"));
  CHECK_THAT(read_text(pairs / "run/report.html"), Contains("bleu"));
}

TEST_CASE("errors of pairs come before training", "[program][translation]") {
  const Pairs pairs;
  CHECK_THAT(pairs.refused_to_train({R"(data.train={"table": "missing.tsv"})"}), Contains("missing.tsv"));
  pairs.write("wrong.tsv", "1\tone\n2\n");
  CHECK_THAT(pairs.refused_to_train({R"(data.test={"table": "wrong.tsv"})"}), Contains("wrong.tsv:2"));
  CHECK_THAT(pairs.refused_to_train({R"(data.codec={"name": "bpe", "size": 30})"}), Contains("codec"));
  CHECK_THAT(pairs.refused_to_train({R"(model={"name": "mlp"})"}), Contains("encoder_decoder"));
  CHECK_THAT(pairs.refused_to_train({R"(data={"name": "cmu_dictionary", "path": "absent"})"}),
             Contains("absent"));
}
