// Corpora of texts with a label each, as sequences of numbers.
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
  Vocabulary vocabulary;             // of the training part
  std::vector<std::string> classes;  // labels are places in it
  // Each text's first words, and Vocabulary::kEnd. Validation may be empty.
  LabelledSequences train, validation, test;
  Index unknown = 0, words = 0;    // words of the training part without a number, and all of them
  std::vector<std::string> notes;  // what a user should be told
};

// What every corpus of labelled texts is told.
struct LabelledCorpusOptions {
  options::Choice<tokenizers> tokenizer;
  VocabularyOptions vocabulary;
  Index max_words = 100;                      // what comes behind them in a text is not read
  std::shared_ptr<const Vocabulary> known{};  // no key: taken as it is in place of the training texts'
  static const options::Schema& schema();
};

struct LabelledReader {
  std::function<LabelledCorpus(const LabelledCorpusOptions&)> read;
  std::vector<std::string> classes{};  // where they are known without reading
};

using LabelledCorpusRegistry = options::Registry<LabelledReader()>;

// A text as a model of such a corpus reads it.
EncodedText encode_text(std::string_view text, const Tokenizer& tokenizer, const Vocabulary& vocabulary,
                        Index max_words);

// ---- For readers

struct LabelledText {
  std::string_view text;  // whoever has the text keeps it
  std::int64_t label = 0;
};
struct LabelledParts {
  std::vector<std::string> classes;
  std::vector<LabelledText> train, validation, test;
};

// Throws UserError in the name of `where` on a training part without a word, and as Vocabulary does.
LabelledCorpus make_labelled_corpus(const LabelledParts& parts, const LabelledCorpusOptions& options,
                                    const std::string& where);

}  // namespace tandem::datasets
