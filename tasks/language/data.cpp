#include "tasks/language/data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/json_text.h"

namespace tandem::tasks {

DataPtr LanguageData::open(const LanguageOptions& options, const Json* words_of) {
  datasets::TextOptions text = options.data.text;
  if (words_of) {
    const DataPtr then = recall(*words_of);
    const auto& like = static_cast<const LanguageData&>(*then);
    text.common.tokenizer = options::Choice<datasets::tokenizers>(like.tokenizer_name_);
    text.common.known = std::make_shared<const datasets::Vocabulary>(like.vocabulary());
  }
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  data->name_ = text.corpus.name();
  data->tokenizer_name_ = text.common.tokenizer.name();
  data->tokenizer_ = datasets::tokenizers().make(text.common.tokenizer);
  data->corpus_ = datasets::open_corpus(text);
  data->training_words_ = static_cast<Index>(data->corpus_.train.ids.size());
  return data;
}

DataPtr LanguageData::describe(const LanguageOptions& options, const Json* words_of) {
  if (words_of) return recall(*words_of);
  const datasets::TextOptions& text = options.data.text;
  const Index size = text.common.vocabulary.size;
  if (size == 0) return open(options);
  std::vector<std::string> words{std::string(datasets::Vocabulary::kUnknownWord),
                                 std::string(datasets::Vocabulary::kEndWord)};
  while (static_cast<Index>(words.size()) < size) words.push_back(fmt::format("word {}", words.size()));
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  data->name_ = text.corpus.name();
  data->tokenizer_name_ = text.common.tokenizer.name();
  data->tokenizer_ = datasets::tokenizers().make(text.common.tokenizer);
  data->corpus_.vocabulary = datasets::Vocabulary(std::move(words), "data.vocabulary.size");
  return data;
}

DataPtr LanguageData::recall(const Json& description) {
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  try {
    data->name_ = description.at("name").get<std::string>();
    data->tokenizer_name_ = description.at("tokenizer").get<std::string>();
    data->training_words_ = description.at("training_words").get<Index>();
    data->corpus_.vocabulary = datasets::Vocabulary(
        description.at("vocabulary").get<std::vector<std::string>>(), "the description of the data");
  } catch (const nlohmann::json::exception& error) {
    throw UserError("data", fmt::format("the description is damaged: {}", files::json_reason(error)));
  }
  data->tokenizer_ = datasets::tokenizers().make(data->tokenizer_name_, {});
  return data;
}

Json LanguageData::description() const {
  return {{"name", name_},
          {"tokenizer", tokenizer_name_},
          {"training_words", training_words_},
          {"vocabulary", vocabulary().words()}};
}

void LanguageData::require_like(const Json& saved, const std::string& weights) const {
  const DataPtr then = recall(saved);
  const auto& words = static_cast<const LanguageData&>(*then).vocabulary().words();
  const auto& own = vocabulary().words();
  if (words == own) return;
  const auto [theirs, ours] = std::ranges::mismatch(words, own);
  throw UserError("", fmt::format("{}: were trained with other words: {} of them, {} has {}; the first "
                                  "difference is number {}, \"{}\" there and \"{}\" here",
                                  weights, words.size(), name_, own.size(), theirs - words.begin(),
                                  theirs == words.end() ? "" : *theirs, ours == own.end() ? "" : *ours));
}

std::vector<NamedVocabulary> LanguageData::vocabularies() const {
  return {{tokenizer_->of_characters() ? "characters" : "words", tokenizer_name_, vocabulary().words()}};
}

const datasets::PackedText& LanguageData::text(const std::string& split) const {
  ensure(is_open(), "data", "{} is only described", name_);
  const datasets::PackedText& text = split == "train"        ? corpus_.train
                                     : split == "validation" ? corpus_.validation
                                                             : corpus_.test;
  require(!text.ids.empty(), "", "{} has no {} split", name_, split);
  return text;
}

}  // namespace tandem::tasks
