#include "tasks/question_answering/data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem::tasks {

std::shared_ptr<QuestionData> QuestionData::named(const QuestionAnsweringOptions& options) {
  auto data = std::shared_ptr<QuestionData>(new QuestionData());
  data->name_ = options.data.questions.set.name();
  return data;
}

DataPtr QuestionData::open(const QuestionAnsweringOptions& options, const Json* words_of) {
  const auto& questions = options.data.questions;
  const auto data = named(options);
  data->corpus_ =
      datasets::make_question_corpus(datasets::question_sets().make(questions.set), questions.common.codec,
                                     words_of ? saved_codec(*words_of) : nullptr, data->name_);
  const datasets::EncodedQuestions& train = data->corpus_.train;
  data->training_samples_ = train.size();
  data->unanswerable_ =
      std::ranges::any_of(train.questions, [](const auto& question) { return question.answers.empty(); });
  return data;
}

DataPtr QuestionData::describe(const QuestionAnsweringOptions& options, const Json* words_of) {
  const datasets::TextCodecPtr codec =
      words_of ? saved_codec(*words_of) : datasets::described_codec(options.data.questions.common.codec);
  if (!codec) return open(options, words_of);
  const auto data = named(options);
  data->corpus_.codec = codec;
  return data;
}

DataPtr QuestionData::recall(const Json& description) {
  auto data = std::shared_ptr<QuestionData>(new QuestionData());
  data->corpus_.codec = saved_codec(description);
  read_description([&] { data->name_ = description.at("name").get<std::string>(); });
  if (description.contains("training_pieces")) return data;  // of a masked language model
  read_description([&] {
    data->training_samples_ = description.at("training_questions").get<Index>();
    data->unanswerable_ = description.at("unanswerable").get<bool>();
  });
  return data;
}

Json QuestionData::description() const {
  return {{"name", name_},
          {"training_questions", training_samples_},
          {"unanswerable", unanswerable_},
          {"codec", codec().description()}};
}

void QuestionData::require_like(const Json& saved, const std::string& weights) const {
  require_same_codec(*saved_codec(saved), codec(), weights, name_);
}

std::vector<NamedVocabulary> QuestionData::vocabularies() const { return {vocabulary_of(codec())}; }

datasets::WindowMarks QuestionData::marks() const {
  return {
      .begin = codec().begin(), .end = codec().end(), .padding = datasets::wordpiece_marks(codec()).padding};
}

}  // namespace tandem::tasks
