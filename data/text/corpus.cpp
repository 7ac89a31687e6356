#include "data/text/corpus.h"

#include <fmt/core.h>

#include "core/error.h"

namespace tandem::datasets {

const options::Schema& CorpusOptions::schema() {
  static const options::Schema schema =
      options::Describe<CorpusOptions>()
          .key("tokenizer", &CorpusOptions::tokenizer, "what the pieces of the text are")
          .key("vocabulary", &CorpusOptions::vocabulary, "which pieces have a number");
  return schema;
}

void count_words(std::span<const std::string_view> texts, const Tokenizer& tokenizer, WordCounts& counts) {
  for (const std::string_view text : texts) count_words(tokenizer.encode(text), counts);
}

EncodedText encode(std::span<const std::string_view> texts, const Tokenizer& tokenizer,
                   const Vocabulary& vocabulary) {
  EncodedText all;
  for (const std::string_view text : texts) {
    const EncodedText one = vocabulary.encode(tokenizer.encode(text));
    all.ids.insert(all.ids.end(), one.ids.begin(), one.ids.end());
    all.ids.push_back(Vocabulary::kEnd);
    all.unknown += one.unknown;
  }
  return all;
}

TextCorpus make_corpus(const TextParts& parts, const CorpusOptions& options, const std::string& where) {
  const TokenizerPtr tokenizer = tokenizers().make(options.tokenizer);
  WordCounts counts;
  count_words(parts.train, *tokenizer, counts);
  require(!counts.empty(), where, "the training text has no word ({} texts, tokenizer {})",
          parts.train.size(), tokenizer->name());
  TextCorpus corpus{.vocabulary = Vocabulary(counts, options.vocabulary),
                    .train = {},
                    .validation = {},
                    .test = {},
                    .notes = {}};
  if (corpus.vocabulary.size() < options.vocabulary.size)
    corpus.notes.push_back(
        fmt::format("the vocabulary has {} words, fewer than the {} asked for: the training "
                    "text has no more that come {} or more times",
                    corpus.vocabulary.size(), options.vocabulary.size, options.vocabulary.min_count));
  corpus.train = encode(parts.train, *tokenizer, corpus.vocabulary);
  corpus.validation = encode(parts.validation, *tokenizer, corpus.vocabulary);
  corpus.test = encode(parts.test, *tokenizer, corpus.vocabulary);
  return corpus;
}

}  // namespace tandem::datasets
