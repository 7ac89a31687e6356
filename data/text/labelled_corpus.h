// Text classification corpora: labelled texts as sequences of token ids.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/codec.h"
#include "data/text/sequence_source.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

struct LabelledCorpus {
  Vocabulary vocabulary;             // of the training split; empty if a codec is chosen
  TextCodecPtr codec{};              // the chosen one, or that of tokenizer and vocabulary
  std::vector<std::string> classes;  // labels index it
  // Texts as of encode_text. Validation may be empty.
  LabelledSequences train, validation, test;
  Index unknown = 0, words = 0;    // unknown words, and all words, of the training split
  std::vector<std::string> notes;  // messages for the user
};

// Options of every corpus of labelled texts.
struct LabelledCorpusOptions {
  options::Choice<tokenizers> tokenizer;
  VocabularyOptions vocabulary;
  std::optional<CodecChoice> codec{};  // instead of tokenizer and vocabulary
  Index max_words = 100;               // longer texts are cut off
  Index max_labels = 0;                // training texts in use; 0: all
  // No keys; replace the training split's, unchanged.
  std::shared_ptr<const Vocabulary> known{};
  TextCodecPtr known_codec{};
  static const options::Schema& schema();
};

struct LabelledReader {
  std::function<LabelledCorpus(const LabelledCorpusOptions&)> read;
  std::vector<std::string> classes{};  // if known before reading
};

using LabelledCorpusRegistry = options::Registry<LabelledReader()>;

// Encodes a text as input of a model of such a corpus: the codec's begin, unless it is the same as its end,
// the first `max_words` words or pieces, and the end.
EncodedText encode_text(std::string_view text, const TextCodec& codec, Index max_words);

// ---- For corpus readers

struct LabelledText {
  std::string_view text;  // the caller keeps the text alive
  std::int64_t label = 0;
};
struct LabelledParts {
  std::vector<std::string> classes;
  std::vector<LabelledText> train, validation, test;
};

// Throws UserError at `where` for a training split without words, and as Vocabulary does.
LabelledCorpus make_labelled_corpus(const LabelledParts& parts, const LabelledCorpusOptions& options,
                                    const std::string& where);

}  // namespace tandem::datasets
