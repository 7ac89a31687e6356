#include "data/text/labelled_corpus.h"

#include <algorithm>

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

// A vocabulary of the first words of the training texts.
Vocabulary vocabulary_of(const LabelledParts& parts, const LabelledCorpusOptions& options,
                         const std::string& where) {
  if (options.known) return *options.known;
  const TokenizerPtr tokenizer = tokenizers().make(options.tokenizer);
  WordCounts counts;
  for (const LabelledText& each : parts.train)
    count_words(first_words_of(each.text, *tokenizer, options.max_words), counts);
  require(!counts.empty(), where, "the training texts have no word ({} texts, tokenizer {})",
          parts.train.size(), tokenizer->name());
  return Vocabulary(counts, options.vocabulary, where);
}

TextCodecPtr made_codec(const LabelledParts& parts, const CodecChoice& choice, const std::string& where) {
  std::vector<std::string_view> texts;
  for (const LabelledText& each : parts.train) texts.push_back(each.text);
  return codecs().make(choice, {texts, where});
}

// `count` of all texts, at even distances; 0: all.
std::vector<LabelledText> some_of(const std::vector<LabelledText>& all, Index count) {
  const auto most = static_cast<std::size_t>(count);
  if (count == 0 || most >= all.size()) return all;
  std::vector<LabelledText> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(all[i * all.size() / most]);
  return some;
}

}  // namespace

const options::Schema& LabelledCorpusOptions::schema() {
  static const options::Schema schema =
      options::Describe<LabelledCorpusOptions>()
          .key("tokenizer", &LabelledCorpusOptions::tokenizer, "what the pieces of the text are")
          .key("vocabulary", &LabelledCorpusOptions::vocabulary, "which pieces have a number")
          .key("codec", &LabelledCorpusOptions::codec,
               "codec of the texts, instead of tokenizer and vocabulary; null: these two")
          .key("max_words", &LabelledCorpusOptions::max_words,
               "words of a text that are read, its first ones", {.min = 1, .max = kMaxPieces})
          .key("max_labels", &LabelledCorpusOptions::max_labels,
               "training texts in use, at even distances, to learn from few labels; 0: all", {.min = 0});
  return schema;
}

EncodedText encode_text(std::string_view text, const TextCodec& codec, Index max_words) {
  EncodedText encoded = codec.encode(text);
  if (static_cast<Index>(encoded.ids.size()) > max_words) {
    encoded.ids.resize(static_cast<std::size_t>(max_words));
    encoded.unknown = std::ranges::count(encoded.ids, codec.unknown());
  }
  if (codec.begin() != codec.end()) encoded.ids.insert(encoded.ids.begin(), codec.begin());
  encoded.ids.push_back(codec.end());
  return encoded;
}

LabelledCorpus make_labelled_corpus(const LabelledParts& all, const LabelledCorpusOptions& options,
                                    const std::string& where) {
  LabelledParts parts = all;
  parts.train = some_of(all.train, options.max_labels);
  LabelledCorpus corpus;
  corpus.classes = parts.classes;
  if (options.known_codec || options.codec) {
    corpus.codec = options.known_codec ? options.known_codec : made_codec(parts, *options.codec, where);
  } else {
    corpus.vocabulary = vocabulary_of(parts, options, where);
    corpus.codec = vocabulary_codec(tokenizers().make(options.tokenizer), corpus.vocabulary);
  }
  const auto add = [&](const std::vector<LabelledText>& texts, LabelledSequences& to) {
    Index unknown = 0;
    for (const LabelledText& each : texts) {
      const EncodedText text = encode_text(each.text, *corpus.codec, options.max_words);
      to.add(text.ids, each.label);
      unknown += text.unknown;
    }
    return unknown;
  };
  const Index marks = corpus.codec->begin() == corpus.codec->end() ? 1 : 2;
  corpus.unknown = add(parts.train, corpus.train);
  corpus.words = static_cast<Index>(corpus.train.ids.size()) - marks * corpus.train.size();
  add(parts.validation, corpus.validation);
  add(parts.test, corpus.test);
  return corpus;
}

}  // namespace tandem::datasets
