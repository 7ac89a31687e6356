#include "tasks/language/data.h"

#include <nlohmann/json.hpp>

namespace tandem::tasks {

namespace {

constexpr const char* kCharacters = "characters";

}  // namespace

DataPtr LanguageData::open(const LanguageOptions& options, const Json* words_of) {
  datasets::TextOptions text = options.data.text;
  if (words_of) take_saved_words(*words_of, text.common);
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  data->name_ = text.set.name();
  data->corpus_ = datasets::open_corpus(text);
  if (!data->corpus_.codec)
    data->corpus_.codec = datasets::vocabulary_codec(datasets::tokenizers().make(text.common.tokenizer),
                                                     std::move(data->corpus_.vocabulary));
  data->training_samples_ = data->corpus_.train.size();
  return data;
}

DataPtr LanguageData::describe(const LanguageOptions& options, const Json* words_of) {
  if (words_of) return recall(*words_of);
  const datasets::CorpusOptions& common = options.data.text.common;
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  data->name_ = options.data.text.set.name();
  if (common.codec) {
    data->corpus_.codec = datasets::described_codec(*common.codec);
  } else if (common.vocabulary.size > 0) {
    data->corpus_.codec = datasets::vocabulary_codec(datasets::tokenizers().make(common.tokenizer),
                                                     assumed_words(common.vocabulary.size));
  }
  return data->corpus_.codec ? data : open(options);
}

DataPtr LanguageData::recall(const Json& description) {
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  data->corpus_.codec = saved_codec(description);
  read_description([&] {
    data->name_ = description.at("name").get<std::string>();
    data->training_samples_ = description.at("training_words").get<Index>();
  });
  return data;
}

Json LanguageData::description() const {
  Json codec = this->codec().description();
  if (!has_tokenizer(this->codec()))
    return {{"name", name_}, {"training_words", training_samples_}, {"codec", codec}};
  return {{"name", name_},
          {"tokenizer", codec["name"]},
          {"training_words", training_samples_},
          {"vocabulary", std::move(codec["vocabulary"])}};
}

void LanguageData::require_like(const Json& saved, const std::string& weights) const {
  const DataPtr then = recall(saved);
  const auto& other = static_cast<const LanguageData&>(*then);
  require_same_words(other.vocabularies().front().words, vocabularies().front().words, weights, name_);
  require(
      other.codec().description() == codec().description(), "",
      "{}: were trained with codec \"{}\", whose tokens are the same as in {} but not the rules of \"{}\" "
      "that make them; pass the same files and options (data.codec)",
      weights, other.codec().name(), name_, codec().name());
}

std::vector<NamedVocabulary> LanguageData::vocabularies() const {
  NamedVocabulary all = vocabulary_of(codec());
  all.what = units();
  return {std::move(all)};
}

bool LanguageData::of_characters() const { return codec().name() == kCharacters; }

std::string LanguageData::units() const {
  if (!has_tokenizer(codec())) return "tokens";
  return of_characters() ? kCharacters : "words";
}

}  // namespace tandem::tasks
