#include "data/text/corpus.h"

#include <fmt/core.h>

#include "core/error.h"

namespace tandem::datasets {

namespace {

// Joins the ids of the texts, each with `end`. `encode(text)` gives EncodedText.
template <class Encode>
void append_texts(std::span<const std::string_view> texts, std::int32_t end, const Encode& encode,
                  PackedText& to) {
  for (const std::string_view text : texts) {
    EncodedText one = encode(text);
    one.ids.push_back(end);
    to.ids.append(one.ids);
    to.unknown += one.unknown;
  }
}

PackedText encode_part(std::span<const std::string_view> texts, const TextCodec& codec) {
  PackedText all{.ids = PackedIds(codec.size())};
  append_texts(
      texts, codec.end(), [&](std::string_view text) { return codec.encode(text); }, all);
  return all;
}

TextCorpus make_codec_corpus(const TextParts& parts, const CorpusOptions& options, const std::string& where) {
  TextCorpus corpus{.vocabulary = {},
                    .codec = options.known_codec ? options.known_codec
                                                 : codecs().make(*options.codec, {parts.train, where}),
                    .train = {},
                    .validation = {},
                    .test = {},
                    .notes = {}};
  corpus.train = encode_part(parts.train, *corpus.codec);
  corpus.validation = encode_part(parts.validation, *corpus.codec);
  corpus.test = encode_part(parts.test, *corpus.codec);
  return corpus;
}

}  // namespace

const options::Schema& CorpusOptions::schema() {
  static const options::Schema schema =
      options::Describe<CorpusOptions>()
          .key("tokenizer", &CorpusOptions::tokenizer, "what the pieces of the text are")
          .key("vocabulary", &CorpusOptions::vocabulary, "which pieces have a number")
          .key("codec", &CorpusOptions::codec,
               "codec of the text, instead of tokenizer and vocabulary; null: these two");
  return schema;
}

bool CorpusOptions::keeps_line_ends() const {
  return known_codec ? known_codec->keeps_line_ends() : codec && datasets::keeps_line_ends(*codec);
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
  append_texts(
      texts, Vocabulary::kEnd,
      [&](std::string_view text) { return vocabulary.encode(tokenizer.encode(text)); }, all);
  return all;
}

TextCorpus make_corpus(const TextParts& parts, const CorpusOptions& options, const std::string& where) {
  if (options.known_codec || options.codec) return make_codec_corpus(parts, options, where);
  const TokenizerPtr tokenizer = tokenizers().make(options.tokenizer);
  WordCounts counts;
  if (!options.known) count_words(parts.train, *tokenizer, counts);
  require(options.known || !counts.empty(), where, "the training text has no word ({} texts, tokenizer {})",
          parts.train.size(), tokenizer->name());
  TextCorpus corpus{
      .vocabulary = options.known ? *options.known : Vocabulary(counts, options.vocabulary, where),
      .codec = nullptr,
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
