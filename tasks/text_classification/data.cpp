#include "tasks/text_classification/data.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/class_order.h"
#include "data/limits.h"
#include "tasks/class_lists.h"

namespace tandem::tasks {

std::shared_ptr<LabelledTextData> LabelledTextData::named(const datasets::LabelledTextOptions& options) {
  auto data = std::shared_ptr<LabelledTextData>(new LabelledTextData());
  data->name_ = options.set.name();
  data->set_tokenizer(options.common.tokenizer);
  data->max_words_ = options.common.max_words;
  return data;
}

DataPtr LabelledTextData::open(const TextClassificationOptions& from, const Json* words_of) {
  const datasets::LabelledTextOptions options = with_words<LabelledTextData>(from.data.text, words_of);
  const auto data = named(options);
  data->corpus_ = datasets::open_labelled_corpus(options);
  data->training_samples_ = data->corpus_.train.size();
  return data;
}

DataPtr LabelledTextData::describe(const TextClassificationOptions& from, const Json* words_of) {
  const datasets::LabelledTextOptions options = with_words<LabelledTextData>(from.data.text, words_of);
  const Index size = options.common.vocabulary.size;
  std::vector<std::string> classes = datasets::known_classes(options);
  if ((size == 0 && !words_of) || classes.empty()) return open(from, words_of);
  const auto data = named(options);
  data->corpus_.classes = std::move(classes);
  data->corpus_.vocabulary = words_of ? *options.common.known : assumed_words(size);
  return data;
}

DataPtr LabelledTextData::recall(const Json& description) {
  auto data = std::shared_ptr<LabelledTextData>(new LabelledTextData());
  read_description([&] {
    data->name_ = description.at("name").get<std::string>();
    data->set_tokenizer(
        options::Choice<datasets::tokenizers>(description.at("tokenizer").get<std::string>()));
    data->max_words_ = description.at("max_words").get<Index>();
    data->training_samples_ = description.at("training_texts").get<Index>();
    data->corpus_.classes = description.at("classes").get<std::vector<std::string>>();
    data->corpus_.vocabulary = datasets::Vocabulary(
        description.at("vocabulary").get<std::vector<std::string>>(), "the description of the data");
  });
  require(data->max_words_ > 0 && data->max_words_ <= datasets::kMaxPieces && data->classes().size() > 1,
          "data", "the description is damaged: it has {} words of a text (at most {}) and {} classes",
          data->max_words_, datasets::kMaxPieces, data->classes().size());
  return data;
}

Json LabelledTextData::description() const {
  return {{"name", name_},
          {"tokenizer", tokenizer_name_},
          {"max_words", max_words_},
          {"training_texts", training_samples_},
          {"classes", corpus_.classes},
          {"vocabulary", corpus_.vocabulary.words()}};
}

void LabelledTextData::require_like(const Json& saved, const std::string& weights) const {
  const DataPtr then = recall(saved);
  const auto& other = static_cast<const LabelledTextData&>(*then);
  require_same({other.classes(), classes()}, weights, name_);
  require_same_words(other.vocabulary().words(), vocabulary().words(), weights, name_);
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
  auto all = WordData::vocabularies();
  all.push_back({"classes", "classes", classes()});
  return all;
}

}  // namespace tandem::tasks
