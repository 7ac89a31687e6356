// Text models that start from weights of another vocabulary: rows are mapped by word.
#include "train/word_rows.h"

#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>

#include "files/json_text.h"
#include "models/language_model.h"
#include "models/weights.h"
#include "runs/run_data.h"
#include "tests/tasks/trial.h"
#include "train/setup.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;
using Json = nlohmann::json;
using Rows = std::map<std::string, std::vector<float>>;

namespace {

const std::string kText = "the cat sat on the mat\nthe dog sat\na cat ran\n";
const std::string kOther = "a bird sat on the roof\nthe bird ran\nthe cat saw the bird\na bird ran\n";

// A task whose data makes its own vocabulary, in a folder that goes with it.
class Trial : public testing::TaskTrial {
 public:
  Trial(Json config, const std::map<std::string, std::string>& files,
        const std::vector<std::string>& overrides = {}) {
    for (const auto& [name, text] : files) paths_[name] = write(name, text);
    place(config["data"]);
    config["optimizer"] = {{"name", "sgd"}, {"lr", 0.1}};
    loaded_ = config::load(write("config.json", config.dump()), overrides);
    data_ = runs::open_data(loaded_.config, {});
    task_ = config::make_task(loaded_, data_);
  }
  tasks::Task& task() { return *task_; }
  const config::Config& config() const { return loaded_.config; }
  std::vector<std::string> start() { return train::initialise_from(loaded_.config, *task_); }
  // Every number another one.
  std::string save(bool with_words = true) {
    float next = 1.0F;
    for (const Parameter& parameter : task_->model().parameters())
      for (Index i = 0; i < parameter.value().numel(); ++i) parameter.value().data<float>()[i] = next++;
    safetensors::Metadata metadata;
    if (with_words) metadata["tandem.data"] = files::json_text(data_->description());
    const std::string path = write("w.safetensors", "");
    models::save_weights(task_->model(), path, metadata);
    return path;
  }
  const std::vector<std::string> words(std::size_t which = 0) const {
    return data_->vocabularies().at(which).words;
  }
  // By word.
  Rows rows(const std::string& table, std::size_t which = 0) {
    Rows rows;
    const std::vector<std::string> names = words(which);
    for (const auto& [path, parameter] : task_->model().parameter_paths()) {
      if (path != table) continue;
      const std::vector<float> values = parameter.value().to_vector<float>();
      const std::size_t width = values.size() / names.size();
      for (std::size_t i = 0; i < names.size(); ++i)
        rows[names[i]] = {values.begin() + static_cast<std::ptrdiff_t>(i * width),
                          values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width)};
    }
    return rows;
  }

 private:
  void place(Json& data) {
    for (auto& value : data) {
      if (value.is_object()) place(value);
      if (value.is_string() && paths_.contains(value)) value = paths_.at(value);
    }
  }
  std::map<std::string, std::string> paths_;
  config::Loaded loaded_;
  tasks::DataPtr data_;
  std::unique_ptr<tasks::Task> task_;
};

Json language(bool tied) {
  return {{"task", "language"},
          {"model",
           {{"name", "language_model"}, {"embedding", 3}, {"units", 3}, {"num_layers", 1}, {"tied", tied}}},
          {"data",
           {{"name", "text"},
            {"train", "train"},
            {"batch_size", 1},
            {"validation_fraction", 0},
            {"test_fraction", 0}}}};
}

// Rows of words that both have are the saved ones, and others as a fresh model has them.
void check_rows(Trial& saved, Trial& fresh, Trial& started, const std::string& table, std::size_t which = 0) {
  CAPTURE(table);
  const Rows theirs = saved.rows(table, which), drawn = fresh.rows(table, which);
  Index kept = 0;
  for (const auto& [word, row] : started.rows(table, which)) {
    CAPTURE(word);
    CHECK(row == (theirs.contains(word) ? theirs.at(word) : drawn.at(word)));
    kept += theirs.contains(word) ? 1 : 0;
  }
  CHECK(kept > 2);
  CHECK(kept < static_cast<Index>(drawn.size()));
}

std::vector<std::string> from(const std::string& path, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"init_from.path=" + path};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

}  // namespace

TEST_CASE("a language model that starts from another text's keeps the rows of its words", "[init_from]") {
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    Trial saved(language(tied), {{"train", kText}});
    const std::string path = saved.save();
    Trial fresh(language(tied), {{"train", kOther}}),
        started(language(tied), {{"train", kOther}}, from(path));
    const std::vector<std::string> notes = started.start();
    REQUIRE(notes.size() == 2);
    CHECK_THAT(notes[1], Contains("words: 8 of 11 are taken from the weights by name, 3 are new") &&
                             Contains("2 of the weights' 10 are dropped"));
    for (const char* table : {"encoder.weight", "decoder.weight", "decoder.bias"})
      check_rows(saved, fresh, started, table);
    CHECK(started.task().model().parameters()[1].value().to_vector<float>() ==
          saved.task().model().parameters()[1].value().to_vector<float>());
  }
}

TEST_CASE("words of the same text, and files that name no words, keep their rows' places", "[init_from]") {
  Trial saved(language(true), {{"train", kText}});
  const std::string path = saved.save();
  Trial same(language(true), {{"train", kText}}, from(path));
  CHECK(same.start().size() == 1);
  CHECK(same.rows("encoder.weight") == saved.rows("encoder.weight"));
  const std::string nameless = saved.save(false);
  Trial foreign(language(true), {{"train", kText}}, from(nameless));
  const std::vector<std::string> notes = foreign.start();
  REQUIRE(notes.size() == 2);
  CHECK_THAT(notes[1], Contains("has no vocabulary"));
  CHECK(foreign.rows("encoder.weight") == saved.rows("encoder.weight"));
}

TEST_CASE("the vocabulary of the weights can be taken in place of the data's own", "[init_from]") {
  Trial saved(language(true), {{"train", kText}});
  const std::string path = saved.save();
  Trial started(language(true), {{"train", kOther}}, from(path, {"init_from.vocabulary=from run"}));
  CHECK(started.words() == saved.words());
  CHECK(started.start().size() == 1);
  CHECK(started.rows("encoder.weight") == saved.rows("encoder.weight"));
  const auto described = runs::describe_data(started.config());
  CHECK(described->vocabularies()[0].words == saved.words());
  CHECK_THAT(user_error_of([&] {
               runs::open_data(
                   config::load("digits_mlp", from(path, {"init_from.vocabulary=from run"})).config, {});
             }),
             Contains("init_from.vocabulary") && Contains("has no vocabulary"));
}

TEST_CASE("tables that cannot go by word are refused", "[init_from]") {
  Trial saved(language(true), {{"train", kText}});
  const std::string path = saved.save();
  Trial characters(language(true), {{"train", kOther}}, from(path, {"data.tokenizer=characters"}));
  CHECK_THAT(user_error_of([&] { characters.start(); }),
             Contains("those of \"words\"") && Contains("\"characters\"") && Contains("from run"));
  Json adaptive = language(false);
  adaptive["model"]["softmax"] = {{"name", "adaptive"}, {"cutoffs", {4}}, {"div_value", 1}};
  Trial clusters(adaptive, {{"train", kText}});
  Trial other(adaptive, {{"train", kOther}}, from(clusters.save()));
  CHECK_THAT(user_error_of([&] { other.start(); }), Contains("decoder.head.weight") && Contains("clusters"));
}

TEST_CASE("a classifier of texts keeps the rows of its words and of its classes", "[init_from]") {
  const Json config{{"task", "text_classification"},
                    {"model", {{"name", "text_classifier"}, {"embedding", 3}, {"units", 2}}},
                    {"data", {{"name", "labelled_lines"}, {"train", "train"}, {"test", "train"}}}};
  Trial saved(config, {{"train", "pets\tthe cat\ntools\ta saw\nzoo\tan ape\n"}});
  const std::string path = saved.save();
  const std::map<std::string, std::string> files{
      {"train", "tools\tthe hammer\nart\ta saw\npets\tthe cat\nzoo\tan ox\n"}};
  Trial fresh(config, files), started(config, files, from(path));
  const std::vector<std::string> notes = started.start();
  REQUIRE(notes.size() == 3);
  CHECK_THAT(notes[2], Contains("classes: 3 of 4 are taken from the weights by name, 1 are new"));
  check_rows(saved, fresh, started, "embedding.weight");
  check_rows(saved, fresh, started, "classifier.weight", 1);
  check_rows(saved, fresh, started, "classifier.bias", 1);
}

TEST_CASE("a translator keeps the rows of its pieces on both sides", "[init_from]") {
  const auto pairs = [](const std::string& more) {
    std::string text;
    for (const char* words :
         {"the cat of the house", "a dog at the door", "the dog and the cat", "a house and a door"})
      text += fmt::format("{}{}\t{} {}\n", words, more, more, words);
    return text;
  };
  for (const bool shared : {false, true}) {
    for (const bool learnt : {false, true}) {
      CAPTURE(shared, learnt);
      Json config{{"task", "translation"},
                  {"model",
                   {{"name", "encoder_decoder"},
                    {"embedding", 4},
                    {"units", 4},
                    {"encoder_layers", 2},
                    {"decoder_layers", 2},
                    {"tied", shared}}},
                  {"data",
                   {{"name", "text_pairs"},
                    {"train", {{"table", "train"}}},
                    {"validation_fraction", 0},
                    {"test_fraction", 0},
                    {"max_length", 90}}}};
      const Json codec = learnt ? Json{{"name", "unigram"}, {"size", 22}} : Json("words");
      if (shared) {
        config["data"]["codec"] = codec;
      } else {
        config["data"]["source_codec"] = codec;
        config["data"]["target_codec"] = "characters";
      }
      Trial saved(config, {{"train", pairs(" sat there alone for an hour")}});
      const std::string path = saved.save();
      const std::map<std::string, std::string> files{{"train", pairs(" ran up and down the hills")}};
      Trial fresh(config, files), started(config, files, from(path));
      CHECK(started.start().size() == 3);
      check_rows(saved, fresh, started, "encoder.embedder.weight", 0);
      for (const char* table : {"decoder.embedder.weight", "decoder.classifier.classifier.weight",
                                "decoder.classifier.classifier.bias"})
        check_rows(saved, fresh, started, table, 1);
      Trial whole(config, files, from(path, {"init_from.vocabulary=from run"}));
      CHECK(whole.words(0) == saved.words(0));
      CHECK(whole.words(1) == saved.words(1));
    }
  }
}
