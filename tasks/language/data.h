// Data of a language model: a text as word ids, and its vocabulary.
#pragma once

#include "data/text/corpus.h"
#include "data/text/stream_source.h"
#include "data/text/tokenizer.h"
#include "tasks/language/options.h"
#include "tasks/task.h"
#include "tasks/vocabularies.h"

namespace tandem::tasks {

class LanguageData final : public Data, public HasVocabularies {
 public:
  // `words_of`: see Context.
  static DataPtr open(const LanguageOptions& options, const Json* words_of = nullptr);
  // Describes without reading: assumes a vocabulary and a text of the maximum size. Reads the text if there
  // is no maximum.
  static DataPtr describe(const LanguageOptions& options, const Json* words_of = nullptr);
  // From description(): words and tokenizer, no text.
  static DataPtr recall(const Json& description);

  Json description() const override;
  Index training_samples() const override { return training_words_; }
  // Throws UserError unless the words are the same.
  void require_like(const Json& saved, const std::string& weights) const override;
  std::vector<NamedVocabulary> vocabularies() const override;

  const std::string& name() const { return name_; }
  const datasets::Vocabulary& vocabulary() const { return corpus_.vocabulary; }
  const datasets::Tokenizer& tokenizer() const { return *tokenizer_; }
  const datasets::TextCorpus& corpus() const { return corpus_; }
  bool is_open() const { return !corpus_.train.ids.empty(); }
  // "train", "validation" or "test". Throws UserError for a missing split, InternalError when the data is
  // only described.
  const datasets::PackedText& text(const std::string& split) const;

 private:
  LanguageData() = default;

  std::string name_, tokenizer_name_;
  datasets::TextCorpus corpus_;
  datasets::TokenizerPtr tokenizer_;
  Index training_words_ = 0;
};

}  // namespace tandem::tasks
