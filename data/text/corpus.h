// Corpora: a text as three streams of ids, for training, validation and test.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/codec.h"
#include "data/text/packed_ids.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

inline constexpr std::size_t kMaxCorpusBytes = std::size_t{1} << 30;  // of one file

// EncodedText of a whole split.
struct PackedText {
  PackedIds ids;
  Index unknown = 0;
  Index size() const { return static_cast<Index>(ids.size()); }
};

struct TextCorpus {
  Vocabulary vocabulary;  // of the training split; empty if there is a codec
  TextCodecPtr codec;     // the chosen one, or nullptr
  // Concatenated lines or documents, each followed by Vocabulary::kEnd or the codec's end. Validation and
  // test may be empty.
  PackedText train, validation, test;
  std::vector<std::string> notes;  // messages for the user
};

// Options of every corpus.
struct CorpusOptions {
  options::Choice<tokenizers> tokenizer;
  VocabularyOptions vocabulary;
  std::optional<CodecChoice> codec{};  // instead of tokenizer and vocabulary
  // No keys; replace the training split's, unchanged.
  std::shared_ptr<const Vocabulary> known{};
  TextCodecPtr known_codec{};
  // True if a text should be passed in documents that include their line ends instead of in lines.
  bool keeps_line_ends() const;
  static const options::Schema& schema();
};

using CorpusRegistry = options::Registry<TextCorpus(const CorpusOptions&)>;

// ---- For corpus readers

// Lines or documents, without the end. The caller keeps the text alive.
struct TextParts {
  std::vector<std::string_view> train, validation, test;
};

// Adds the words of each text to `counts`.
void count_words(std::span<const std::string_view> texts, const Tokenizer& tokenizer, WordCounts& counts);
PackedText encode(std::span<const std::string_view> texts, const Tokenizer& tokenizer,
                  const Vocabulary& vocabulary);
// Throws UserError at `where` for a training split without words, and as Vocabulary and codecs do.
TextCorpus make_corpus(const TextParts& parts, const CorpusOptions& options, const std::string& where);

}  // namespace tandem::datasets
