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

PackedText encode(std::span<const std::string_view> texts, const Tokenizer& tokenizer,
                  const Vocabulary& vocabulary) {
  PackedText all{.ids = PackedIds(vocabulary.size())};
  if (tokenizer.of_characters()) {
    std::size_t bytes = 0;  // no more characters than that
    for (const std::string_view text : texts) bytes += text.size() + 1;
    all.ids.reserve(bytes);
  }
  for (const std::string_view text : texts) {
    EncodedText one = vocabulary.encode(tokenizer.encode(text));
    one.ids.push_back(Vocabulary::kEnd);
    all.ids.append(one.ids);
    all.unknown += one.unknown;
  }
  return all;
}

TextCorpus make_corpus(const TextParts& parts, const CorpusOptions& options, const std::string& where) {
  const TokenizerPtr tokenizer = tokenizers().make(options.tokenizer);
  WordCounts counts;
  if (!options.known) count_words(parts.train, *tokenizer, counts);
  require(options.known || !counts.empty(), where, "the training text has no word ({} texts, tokenizer {})",
          parts.train.size(), tokenizer->name());
  TextCorpus corpus{
      .vocabulary = options.known ? *options.known : Vocabulary(counts, options.vocabulary, where),
      .train = {},
      .validation = {},
      .test = {},
      .notes = {}};
  if (!options.known && corpus.vocabulary.size() < options.vocabulary.size)
    corpus.notes.push_back(
        fmt::format("the vocabulary has {} words, fewer than the {} asked for: the training text has no more "
                    "that come {} or more times",
                    corpus.vocabulary.size(), options.vocabulary.size, options.vocabulary.min_count));
  corpus.train = encode(parts.train, *tokenizer, corpus.vocabulary);
  corpus.validation = encode(parts.validation, *tokenizer, corpus.vocabulary);
  corpus.test = encode(parts.test, *tokenizer, corpus.vocabulary);
  return corpus;
}

}  // namespace tandem::datasets
