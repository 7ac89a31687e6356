#include "data/text/labelled_corpus.h"

#include <fmt/core.h>

#include "core/error.h"
#include "data/limits.h"

namespace tandem::datasets {

namespace {

// The first words of a text.
std::vector<std::string> first_words_of(std::string_view text, const Tokenizer& tokenizer, Index max_words) {
  std::vector<std::string> words = tokenizer.encode(text);
  if (static_cast<Index>(words.size()) > max_words) words.resize(static_cast<std::size_t>(max_words));
  return words;
}

EncodedText encode_words(const std::vector<std::string>& words, const Vocabulary& vocabulary) {
  EncodedText text = vocabulary.encode(words);
  text.ids.push_back(Vocabulary::kEnd);
  return text;
}

}  // namespace

const options::Schema& LabelledCorpusOptions::schema() {
  static const options::Schema schema =
      options::Describe<LabelledCorpusOptions>()
          .key("tokenizer", &LabelledCorpusOptions::tokenizer, "what the pieces of the text are")
          .key("vocabulary", &LabelledCorpusOptions::vocabulary, "which pieces have a number")
          .key("max_words", &LabelledCorpusOptions::max_words,
               "words of a text that are read, its first ones", {.min = 1, .max = kMaxPieces});
  return schema;
}

EncodedText encode_text(std::string_view text, const Tokenizer& tokenizer, const Vocabulary& vocabulary,
                        Index max_words) {
  return encode_words(first_words_of(text, tokenizer, max_words), vocabulary);
}

LabelledCorpus make_labelled_corpus(const LabelledParts& parts, const LabelledCorpusOptions& options,
                                    const std::string& where) {
  const TokenizerPtr tokenizer = tokenizers().make(options.tokenizer);
  WordCounts counts;
  if (!options.known)
    for (const LabelledText& each : parts.train)
      count_words(first_words_of(each.text, *tokenizer, options.max_words), counts);
  require(options.known || !counts.empty(), where, "the training texts have no word ({} texts, tokenizer {})",
          parts.train.size(), tokenizer->name());
  LabelledCorpus corpus;
  corpus.vocabulary = options.known ? *options.known : Vocabulary(counts, options.vocabulary, where);
  corpus.classes = parts.classes;
  const auto add = [&](const std::vector<LabelledText>& texts, LabelledSequences& to) {
    Index unknown = 0;
    for (const LabelledText& each : texts) {
      const EncodedText text = encode_text(each.text, *tokenizer, corpus.vocabulary, options.max_words);
      to.add(text.ids, each.label);
      unknown += text.unknown;
    }
    return unknown;
  };
  corpus.unknown = add(parts.train, corpus.train);
  corpus.words = static_cast<Index>(corpus.train.ids.size()) - corpus.train.size();
  add(parts.validation, corpus.validation);
  add(parts.test, corpus.test);
  return corpus;
}

}  // namespace tandem::datasets
