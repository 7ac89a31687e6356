// Data of a question-answering task: questions and contexts as piece ids, and their codec.
#pragma once

#include <memory>

#include "data/text/question_windows.h"
#include "tasks/question_answering/options.h"
#include "tasks/text_data.h"

namespace tandem::tasks {

class QuestionData final : public TextData<datasets::QuestionCorpus> {
 public:
  // `words_of`: see Context.
  static DataPtr open(const QuestionAnsweringOptions& options, const Json* words_of = nullptr);
  // Without reading if the size of the codec is known; only its size is valid then.
  static DataPtr describe(const QuestionAnsweringOptions& options, const Json* words_of = nullptr);
  // From description(): the codec, no text. Also of the description of a masked language model.
  static DataPtr recall(const Json& description);

  Json description() const override;
  // Throws UserError unless the codecs are the same.
  void require_like(const Json& saved, const std::string& weights) const override;
  std::vector<NamedVocabulary> vocabularies() const override;

  const datasets::TextCodec& codec() const { return *corpus_.codec; }
  datasets::WindowMarks marks() const;
  // Whether some training questions have no answer, so that "no answer" can be predicted.
  bool has_unanswerable() const { return unanswerable_; }

 private:
  QuestionData() = default;
  // All but the corpus.
  static std::shared_ptr<QuestionData> named(const QuestionAnsweringOptions& options);

  bool unanswerable_ = false;
};

}  // namespace tandem::tasks
