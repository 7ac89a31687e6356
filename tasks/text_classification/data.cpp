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
  data->max_words_ = options.common.max_words;
  return data;
}

DataPtr LabelledTextData::open(const TextClassificationOptions& from, const Json* words_of) {
  datasets::LabelledTextOptions options = from.data.text;
  if (words_of) take_saved_words(*words_of, options.common);
  const auto data = named(options);
  data->corpus_ = datasets::open_labelled_corpus(options);
  data->training_samples_ = data->corpus_.train.size();
  return data;
}

DataPtr LabelledTextData::describe(const TextClassificationOptions& from, const Json* words_of) {
  const datasets::LabelledTextOptions& options = from.data.text;
  const datasets::LabelledCorpusOptions& common = options.common;
  const auto data = named(options);
  data->corpus_.classes = datasets::known_classes(options);
  if (words_of) {
    data->corpus_.codec = saved_codec(*words_of);
  } else if (common.codec) {
    data->corpus_.codec = datasets::described_codec(*common.codec);
  } else if (common.vocabulary.size > 0) {
    data->corpus_.vocabulary = assumed_words(common.vocabulary.size);
    data->corpus_.codec =
        datasets::vocabulary_codec(datasets::tokenizers().make(common.tokenizer), data->corpus_.vocabulary);
  }
  return data->corpus_.codec && !data->classes().empty() ? data : open(from, words_of);
}

DataPtr LabelledTextData::recall(const Json& description) {
  auto data = std::shared_ptr<LabelledTextData>(new LabelledTextData());
  data->corpus_.codec = saved_codec(description);
  read_description([&] { data->name_ = description.at("name").get<std::string>(); });
  if (description.contains("training_pieces")) return data;  // of a masked language model
  read_description([&] {
    data->max_words_ = description.at("max_words").get<Index>();
    data->training_samples_ = description.at("training_texts").get<Index>();
    data->corpus_.classes = description.at("classes").get<std::vector<std::string>>();
  });
  require(data->max_words_ > 0 && data->max_words_ <= datasets::kMaxPieces && data->classes().size() > 1,
          "data", "the description is damaged: it has {} words of a text (at most {}) and {} classes",
          data->max_words_, datasets::kMaxPieces, data->classes().size());
  return data;
}

Json LabelledTextData::description() const {
  Json codec = this->codec().description();
  Json description{{"name", name_}};
  if (has_tokenizer(this->codec())) {
    description["tokenizer"] = codec["name"];
  } else {
    description["codec"] = codec;
  }
  description["max_words"] = max_words_;
  description["training_texts"] = training_samples_;
  description["classes"] = corpus_.classes;
  if (description.contains("tokenizer")) description["vocabulary"] = std::move(codec["vocabulary"]);
  return description;
}

void LabelledTextData::require_like(const Json& saved, const std::string& weights) const {
  const DataPtr then = recall(saved);
  const auto& other = static_cast<const LabelledTextData&>(*then);
  if (!other.classes().empty()) require_same({other.classes(), classes()}, weights, name_);
  require_same_words(vocabulary_of(other.codec()).words, vocabulary_of(codec()).words, weights, name_);
  require_same_codec(other.codec(), codec(), weights, name_);
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
  std::vector<NamedVocabulary> all{vocabulary_of(codec())};
  if (!classes().empty()) all.push_back({"classes", "classes", classes()});
  return all;
}

}  // namespace tandem::tasks
