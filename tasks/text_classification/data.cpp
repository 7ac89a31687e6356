#include "tasks/text_classification/data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/class_order.h"
#include "data/limits.h"
#include "files/json_text.h"
#include "tasks/class_lists.h"

namespace tandem::tasks {

using datasets::Vocabulary;

std::shared_ptr<LabelledTextData> LabelledTextData::named(const datasets::LabelledTextOptions& options) {
  auto data = std::shared_ptr<LabelledTextData>(new LabelledTextData());
  data->name_ = options.corpus.name();
  data->tokenizer_name_ = options.common.tokenizer.name();
  data->tokenizer_ = datasets::tokenizers().make(options.common.tokenizer);
  data->max_words_ = options.common.max_words;
  return data;
}

namespace {

// Uses the words of a description saved with weights, if given.
datasets::LabelledTextOptions with_words(datasets::LabelledTextOptions options, const Json* words_of) {
  if (!words_of) return options;
  const DataPtr then = LabelledTextData::recall(*words_of);
  const auto& like = static_cast<const LabelledTextData&>(*then);
  options.common.tokenizer = options::Choice<datasets::tokenizers>(like.tokenizer().name());
  options.common.known = std::make_shared<const Vocabulary>(like.corpus().vocabulary);
  return options;
}

}  // namespace

DataPtr LabelledTextData::open(const TextClassificationOptions& from, const Json* words_of) {
  const datasets::LabelledTextOptions options = with_words(from.data.text, words_of);
  const auto data = named(options);
  data->corpus_ = datasets::open_labelled_corpus(options);
  data->training_texts_ = data->corpus_.train.size();
  return data;
}

DataPtr LabelledTextData::describe(const TextClassificationOptions& from, const Json* words_of) {
  const datasets::LabelledTextOptions options = with_words(from.data.text, words_of);
  const Index size = options.common.vocabulary.size;
  std::vector<std::string> classes = datasets::known_classes(options);
  if ((size == 0 && !words_of) || classes.empty()) return open(from, words_of);
  const auto data = named(options);
  data->corpus_.classes = std::move(classes);
  if (words_of) {
    data->corpus_.vocabulary = *options.common.known;
    return data;
  }
  std::vector<std::string> words{std::string(Vocabulary::kUnknownWord), std::string(Vocabulary::kEndWord)};
  while (static_cast<Index>(words.size()) < size) words.push_back(fmt::format("word {}", words.size()));
  data->corpus_.vocabulary = Vocabulary(std::move(words), "data.vocabulary.size");
  return data;
}

DataPtr LabelledTextData::recall(const Json& description) {
  auto data = std::shared_ptr<LabelledTextData>(new LabelledTextData());
  try {
    data->name_ = description.at("name").get<std::string>();
    data->tokenizer_name_ = description.at("tokenizer").get<std::string>();
    data->max_words_ = description.at("max_words").get<Index>();
    data->training_texts_ = description.at("training_texts").get<Index>();
    data->corpus_.classes = description.at("classes").get<std::vector<std::string>>();
    data->corpus_.vocabulary = Vocabulary(description.at("vocabulary").get<std::vector<std::string>>(),
                                          "the description of the data");
  } catch (const nlohmann::json::exception& error) {
    throw UserError("data", fmt::format("the description is damaged: {}", files::json_reason(error)));
  }
  require(data->max_words_ > 0 && data->max_words_ <= datasets::kMaxPieces && data->classes().size() > 1,
          "data", "the description is damaged: it has {} words of a text (at most {}) and {} classes",
          data->max_words_, datasets::kMaxPieces, data->classes().size());
  data->tokenizer_ = datasets::tokenizers().make(data->tokenizer_name_, {});
  return data;
}

Json LabelledTextData::description() const {
  return {{"name", name_},
          {"tokenizer", tokenizer_name_},
          {"max_words", max_words_},
          {"training_texts", training_texts_},
          {"classes", corpus_.classes},
          {"vocabulary", corpus_.vocabulary.words()}};
}

void LabelledTextData::require_like(const Json& saved, const std::string& weights) const {
  const DataPtr then = recall(saved);
  const auto& other = static_cast<const LabelledTextData&>(*then);
  require_same({other.classes(), classes()}, weights, name_);
  const std::vector<std::string>&theirs = other.corpus_.vocabulary.words(),
        &ours = corpus_.vocabulary.words();
  if (theirs == ours) return;
  const auto [a, b] = std::ranges::mismatch(theirs, ours);
  throw UserError("", fmt::format("{}: were trained with other words: {} of them, {} has {}; the first "
                                  "difference is number {}, \"{}\" there and \"{}\" here",
                                  weights, theirs.size(), name_, ours.size(), a - theirs.begin(),
                                  a == theirs.end() ? "" : *a, b == ours.end() ? "" : *b));
}

std::optional<ReorderedData> LabelledTextData::in_order_of(const Json& saved) const {
  const DataPtr then = recall(saved);
  const ClassLists classes{static_cast<const LabelledTextData&>(*then).classes(), this->classes()};
  const auto order = datasets::class_order(classes.theirs, classes.ours);
  if (!order) return std::nullopt;
  const auto data = std::shared_ptr<LabelledTextData>(new LabelledTextData(*this));
  datasets::LabelledCorpus& corpus = data->corpus_;
  corpus.classes = classes.theirs;
  for (datasets::LabelledSequences* part : {&corpus.train, &corpus.validation, &corpus.test})
    for (std::int64_t& label : part->labels) label = order->at(static_cast<std::size_t>(label));
  return ReorderedData{data, note_of_order(classes)};
}

std::vector<NamedVocabulary> LabelledTextData::vocabularies() const {
  return {{tokenizer_->of_characters() ? "characters" : "words", tokenizer_name_, corpus_.vocabulary.words()},
          {"classes", "classes", classes()}};
}

const datasets::LabelledSequences& LabelledTextData::texts(const std::string& split) const {
  ensure(is_open(), "data", "{} is only described", name_);
  const datasets::LabelledSequences& texts = split == "train"        ? corpus_.train
                                             : split == "validation" ? corpus_.validation
                                                                     : corpus_.test;
  require(texts.size() > 0, "", "{} has no {} split", name_, split);
  return texts;
}

}  // namespace tandem::tasks
