// Data of a language model: a text as ids, and its codec.
#pragma once

#include <memory>

#include "data/text/corpus.h"
#include "tasks/language/options.h"
#include "tasks/text_data.h"

namespace tandem::tasks {

class LanguageData final : public TextData<datasets::TextCorpus> {
 public:
  // `words_of`: see Context.
  static DataPtr open(const LanguageOptions& options, const Json* words_of = nullptr);
  // Describes without reading: assumes a codec of the maximum size. Reads the text if there is no maximum.
  static DataPtr describe(const LanguageOptions& options, const Json* words_of = nullptr);
  // From description(): the codec, no text.
  static DataPtr recall(const Json& description);

  Json description() const override;
  // Throws UserError unless the codec is the same.
  void require_like(const Json& saved, const std::string& weights) const override;
  std::vector<NamedVocabulary> vocabularies() const override;

  // The chosen one, or that of tokenizer and vocabulary.
  const datasets::TextCodec& codec() const { return *corpus_.codec; }
  bool of_characters() const;
  // Whether the bytes of a text are those of its ids: characters, or a codec that keeps every byte.
  bool has_bytes() const { return of_characters() || codec().keeps_line_ends(); }
  // Name of the ids: "words", "characters" or "tokens".
  std::string units() const;

 private:
  LanguageData() = default;
};

}  // namespace tandem::tasks
