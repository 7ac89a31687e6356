// Data of a masked-language task: documents as piece ids, and their codec.
#pragma once

#include <memory>

#include "data/text/corpus.h"
#include "data/text/masked_source.h"
#include "tasks/masked_language/options.h"
#include "tasks/text_data.h"

namespace tandem::tasks {

class MaskedLanguageData final : public TextData<datasets::TextCorpus> {
 public:
  // `words_of`: see Context.
  static DataPtr open(const MaskedLanguageOptions& options, const Json* words_of = nullptr);
  // Without reading if the size of the codec is known; only its size is valid then.
  static DataPtr describe(const MaskedLanguageOptions& options, const Json* words_of = nullptr);
  // From description(): the codec, no text.
  static DataPtr recall(const Json& description);

  Json description() const override;
  // Throws UserError unless the codecs are the same.
  void require_like(const Json& saved, const std::string& weights) const override;
  std::vector<NamedVocabulary> vocabularies() const override;

  const datasets::TextCodec& codec() const { return *corpus_.codec; }
  datasets::MaskedMarks marks() const;

 private:
  MaskedLanguageData() = default;
};

}  // namespace tandem::tasks
