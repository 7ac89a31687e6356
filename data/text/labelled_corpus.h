// Text classification corpora: labelled texts as sequences of token ids.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/sequence_source.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

struct LabelledCorpus {
  Vocabulary vocabulary;             // of the training split
  std::vector<std::string> classes;  // labels index it
  // The first max_words words of each text, then Vocabulary::kEnd. Validation may be empty.
  LabelledSequences train, validation, test;
  Index unknown = 0, words = 0;    // unknown words, and all words, of the training split
  std::vector<std::string> notes;  // messages for the user
};

// Options of every corpus of labelled texts.
struct LabelledCorpusOptions {
  options::Choice<tokenizers> tokenizer;
  VocabularyOptions vocabulary;
  Index max_words = 100;                      // longer texts are cut off
  std::shared_ptr<const Vocabulary> known{};  // no key; replaces the training split's, unchanged
  static const options::Schema& schema();
};

struct LabelledReader {
  std::function<LabelledCorpus(const LabelledCorpusOptions&)> read;
  std::vector<std::string> classes{};  // if known before reading
};

using LabelledCorpusRegistry = options::Registry<LabelledReader()>;

// Encodes a text as input of a model of such a corpus.
EncodedText encode_text(std::string_view text, const Tokenizer& tokenizer, const Vocabulary& vocabulary,
                        Index max_words);

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
