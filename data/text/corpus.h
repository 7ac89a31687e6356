// Corpora: a text as three streams of numbers, for training, choosing and the final test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/text/packed_ids.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

inline constexpr std::size_t kMaxCorpusBytes = std::size_t{1} << 30;  // of one file

// As EncodedText, of a whole part.
struct PackedText {
  PackedIds ids;
  Index unknown = 0;
};

struct TextCorpus {
  Vocabulary vocabulary;  // of the training part
  // Lines or documents one after the other, each followed by Vocabulary::kEnd. Validation and test may be
  // empty.
  PackedText train, validation, test;
  std::vector<std::string> notes;  // what a user should be told
};

// What every corpus is told.
struct CorpusOptions {
  options::Choice<tokenizers> tokenizer;
  VocabularyOptions vocabulary;
  std::shared_ptr<const Vocabulary> known{};  // no key: taken as it is in place of the training part's
  static const options::Schema& schema();
};

using CorpusRegistry = options::Registry<TextCorpus(const CorpusOptions&)>;

// ---- For readers

// Lines or documents, each to be followed by Vocabulary::kEnd; whoever has the text keeps it.
struct TextParts {
  std::vector<std::string_view> train, validation, test;
};

// Adds to `counts` the words of each text.
void count_words(std::span<const std::string_view> texts, const Tokenizer& tokenizer, WordCounts& counts);
PackedText encode(std::span<const std::string_view> texts, const Tokenizer& tokenizer,
                  const Vocabulary& vocabulary);
// Throws UserError in the name of `where` on a training part without a word, and as Vocabulary does.
TextCorpus make_corpus(const TextParts& parts, const CorpusOptions& options, const std::string& where);

}  // namespace tandem::datasets
