// Data of a translation task: pairs of texts as piece ids, and their codecs.
#pragma once

#include <string>
#include <vector>

#include "tasks/task.h"
#include "tasks/translation/options.h"
#include "tasks/vocabularies.h"

namespace tandem::tasks {

class TranslationData final : public Data, public HasVocabularies {
 public:
  // `words_of`: see Context.
  static DataPtr open(const TranslationOptions& options, const Json* words_of = nullptr);
  // Without reading if the sizes of the codecs are known; only their sizes are valid then.
  static DataPtr describe(const TranslationOptions& options, const Json* words_of = nullptr);
  // From description(): the codecs, no pairs.
  static DataPtr recall(const Json& description);

  Json description() const override;
  Index training_samples() const override { return training_pairs_; }
  // Throws UserError unless the codecs are the same.
  void require_like(const Json& saved, const std::string& weights) const override;
  // Pieces of the source, and of the target.
  std::vector<NamedVocabulary> vocabularies() const override;

  const std::string& name() const { return name_; }
  const datasets::PairCodecs& codecs() const { return corpus_.codecs; }
  const datasets::PairCorpus& corpus() const { return corpus_; }
  bool is_open() const { return corpus_.train.size() > 0; }
  Index max_length() const { return max_length_; }
  // "train", "validation" or "test". Throws UserError for a missing split, InternalError when the data is
  // only described.
  const datasets::EncodedPairs& pairs(const std::string& split) const;

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
  Place place_of(Index pair) const;

  std::string name_;
  datasets::PairCorpus corpus_;
  Index max_length_ = 0, training_pairs_ = 0;
};

}  // namespace tandem::tasks
