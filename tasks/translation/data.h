// Data of a translation task: pairs of texts as piece ids, and their codecs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tasks/text_data.h"
#include "tasks/translation/options.h"

namespace tandem::tasks {

class TranslationData final : public TextData<datasets::PairCorpus> {
 public:
  // `words_of`: see Context.
  static DataPtr open(const TranslationOptions& options, const Json* words_of = nullptr);
  // Without reading if the sizes of the codecs are known; only their sizes are valid then.
  static DataPtr describe(const TranslationOptions& options, const Json* words_of = nullptr);
  // From description(): the codecs, no pairs.
  static DataPtr recall(const Json& description);

  Json description() const override;
  // Throws UserError unless the codecs are the same.
  void require_like(const Json& saved, const std::string& weights) const override;
  // Pieces of the source, and of the target.
  std::vector<NamedVocabulary> vocabularies() const override;

  const datasets::PairCodecs& codecs() const { return corpus_.codecs; }
  Index max_length() const { return max_length_; }

  // Pairs are numbered through the splits: validation, then test, then training; a batch holds the numbers of
  // its pairs.
  Index first_of(const std::string& split) const;
  // The source text of an evaluated pair, by its number; nullptr for a training pair.
  const std::string* source_of(Index pair) const;
  const std::vector<std::string>* references_of(Index pair) const;

 private:
  struct Place {
    const datasets::EncodedPairs* pairs;
    std::size_t number;
  };
  TranslationData() = default;
  // Without a corpus.
  static std::shared_ptr<TranslationData> named(const datasets::PairDataOptions& options);
  Place place_of(Index pair) const;

  Index max_length_ = 0;
};

}  // namespace tandem::tasks
