// Data of a language model: a text as word ids, and its vocabulary.
#pragma once

#include <memory>

#include "data/text/corpus.h"
#include "tasks/language/options.h"
#include "tasks/text_data.h"

namespace tandem::tasks {

class LanguageData final : public WordData<datasets::TextCorpus> {
 public:
  // `words_of`: see Context.
  static DataPtr open(const LanguageOptions& options, const Json* words_of = nullptr);
  // Describes without reading: assumes a vocabulary and a text of the maximum size. Reads the text if there
  // is no maximum.
  static DataPtr describe(const LanguageOptions& options, const Json* words_of = nullptr);
  // From description(): words and tokenizer, no text.
  static DataPtr recall(const Json& description);

  Json description() const override;
  // Throws UserError unless the words are the same.
  void require_like(const Json& saved, const std::string& weights) const override;

 private:
  LanguageData() = default;
  // Without words.
  static std::shared_ptr<LanguageData> named(const datasets::TextOptions& options);
};

}  // namespace tandem::tasks
