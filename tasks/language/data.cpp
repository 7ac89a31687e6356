#include "tasks/language/data.h"

#include <nlohmann/json.hpp>

namespace tandem::tasks {

std::shared_ptr<LanguageData> LanguageData::named(const datasets::TextOptions& options) {
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  data->name_ = options.set.name();
  data->set_tokenizer(options.common.tokenizer);
  return data;
}

DataPtr LanguageData::open(const LanguageOptions& options, const Json* words_of) {
  const datasets::TextOptions text = with_words<LanguageData>(options.data.text, words_of);
  const auto data = named(text);
  data->corpus_ = datasets::open_corpus(text);
  data->training_samples_ = data->corpus_.train.size();
  return data;
}

DataPtr LanguageData::describe(const LanguageOptions& options, const Json* words_of) {
  if (words_of) return recall(*words_of);
  const Index size = options.data.text.common.vocabulary.size;
  if (size == 0) return open(options);
  const auto data = named(options.data.text);
  data->corpus_.vocabulary = assumed_words(size);
  return data;
}

DataPtr LanguageData::recall(const Json& description) {
  auto data = std::shared_ptr<LanguageData>(new LanguageData());
  read_description([&] {
    data->name_ = description.at("name").get<std::string>();
    data->set_tokenizer(
        options::Choice<datasets::tokenizers>(description.at("tokenizer").get<std::string>()));
    data->training_samples_ = description.at("training_words").get<Index>();
    data->corpus_.vocabulary = datasets::Vocabulary(
        description.at("vocabulary").get<std::vector<std::string>>(), "the description of the data");
  });
  return data;
}

Json LanguageData::description() const {
  return {{"name", name_},
          {"tokenizer", tokenizer_name_},
          {"training_words", training_samples_},
          {"vocabulary", vocabulary().words()}};
}

void LanguageData::require_like(const Json& saved, const std::string& weights) const {
  const DataPtr then = recall(saved);
  require_same_words(static_cast<const LanguageData&>(*then).vocabulary(), vocabulary(), weights, name_);
}

}  // namespace tandem::tasks
