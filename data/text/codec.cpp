#include "data/text/codec.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/text/byte_bpe.h"
#include "data/text/sentence_pieces.h"
#include "data/text/wordpiece.h"
#include "files/json_text.h"

namespace tandem::datasets {

namespace {

using Json = nlohmann::ordered_json;

void require_id(std::int32_t id, Index size) {
  require(id >= 0 && id < size, "codec", "there is no piece {} among {}", id, size);
}

class VocabularyCodec final : public TextCodec {
 public:
  VocabularyCodec(TokenizerPtr tokenizer, Vocabulary vocabulary)
      : tokenizer_(std::move(tokenizer)), vocabulary_(std::move(vocabulary)) {}

  std::string name() const override { return tokenizer_->name(); }
  Index size() const override { return vocabulary_.size(); }
  std::int32_t unknown() const override { return Vocabulary::kUnknown; }
  std::int32_t begin() const override { return Vocabulary::kEnd; }
  std::int32_t end() const override { return Vocabulary::kEnd; }
  bool drops_case() const override { return tokenizer_->drops_case(); }

  EncodedText encode(std::string_view text) const override {
    EncodedText encoded = vocabulary_.encode(tokenizer_->encode(text));
    for (std::int32_t& id : encoded.ids) {
      if (id != Vocabulary::kEnd) continue;
      id = Vocabulary::kUnknown;
      ++encoded.unknown;
    }
    return encoded;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::vector<std::string> pieces;
    for (const std::int32_t id : ids) {
      require_id(id, size());
      if (id != Vocabulary::kEnd) pieces.push_back(vocabulary_.word(id));
    }
    return tokenizer_->decode(pieces);
  }
  std::string written(std::string_view text) const override {
    return tokenizer_->decode(tokenizer_->encode(text));
  }
  std::string piece(std::int32_t id) const override {
    require_id(id, size());
    return vocabulary_.word(id);
  }
  Json description() const override { return {{"name", name()}, {"vocabulary", vocabulary_.words()}}; }

 private:
  TokenizerPtr tokenizer_;
  Vocabulary vocabulary_;
};

bool codec_keeps_line_ends(std::string_view name) { return name == "byte_bpe"; }

class DescribedCodec final : public TextCodec {
 public:
  DescribedCodec(std::string name, Index size, std::int32_t begin, std::int32_t end)
      : name_(std::move(name)), size_(size), begin_(begin), end_(end) {}

  std::string name() const override { return name_; }
  Index size() const override { return size_; }
  std::int32_t unknown() const override { return 0; }
  std::int32_t begin() const override { return begin_; }
  std::int32_t end() const override { return end_; }
  bool drops_case() const override { fail(); }
  bool keeps_line_ends() const override { return codec_keeps_line_ends(name_); }

  EncodedText encode(std::string_view) const override { fail(); }
  std::string decode(std::span<const std::int32_t>) const override { fail(); }
  std::string piece(std::int32_t) const override { fail(); }
  Json description() const override { return {{"name", name_}, {"size", size_}}; }

 private:
  [[noreturn]] void fail() const {
    throw InternalError("codec",
                        fmt::format("{} of {} pieces is a description without pieces", name_, size_));
  }

  std::string name_;
  Index size_;
  std::int32_t begin_, end_;
};

// Codec of a tokenizer and a vocabulary, under the tokenizer's name.
CodecRegistry::Entry vocabulary_entry(const std::string& tokenizer) {
  return CodecRegistry::entry<VocabularyOptions>(
      tokenizer, fmt::format("{}, with ids for the most frequent", tokenizers().at(tokenizer).help),
      VocabularyOptions::schema(), [tokenizer](const VocabularyOptions& options, const CodecTexts& from) {
        const TokenizerPtr made = tokenizers().make(tokenizer, {});
        WordCounts counts;
        for (const std::string_view text : from.texts) count_words(made->encode(text), counts);
        require(!counts.empty(), from.where, "the {} training texts have no piece (codec {})",
                from.texts.size(), tokenizer);
        return vocabulary_codec(made, Vocabulary(counts, options, from.where));
      });
}

}  // namespace

CodecRegistry& codecs() {
  static CodecRegistry family(
      {.what = "codec", .help = "pieces of a text"},
      {vocabulary_entry("words"), vocabulary_entry("spaces"), vocabulary_entry("characters"), unigram_entry(),
       bpe_entry(), byte_bpe_entry(), wordpiece_entry()});
  return family;
}

TextCodecPtr vocabulary_codec(TokenizerPtr tokenizer, Vocabulary vocabulary) {
  return std::make_shared<const VocabularyCodec>(std::move(tokenizer), std::move(vocabulary));
}

bool keeps_line_ends(const CodecChoice& choice) { return codec_keeps_line_ends(choice.name()); }

TextCodecPtr recall_codec(const Json& description, const std::string& where) {
  try {
    const auto name = description.at("name").get<std::string>();
    if (learns_pieces(name))
      return recall_sentence_pieces(name, description.at("model").get<std::string>(), where);
    if (name == "byte_bpe") return recall_byte_bpe(description, where);
    if (name == "wordpiece") return recall_wordpiece(description, where);
    const TokenizerPtr tokenizer = tokenizers().make(name, {});
    return vocabulary_codec(tokenizer,
                            Vocabulary(description.at("vocabulary").get<std::vector<std::string>>(), where));
  } catch (const nlohmann::json::exception& error) {
    throw UserError(where,
                    fmt::format("the description of a codec is damaged: {}", files::json_reason(error)));
  }
}

TextCodecPtr described_codec(const options::Chosen& chosen) {
  const std::string& name = chosen.name();
  const auto described = [&](Index size, std::int32_t begin, std::int32_t end) {
    return std::make_shared<const DescribedCodec>(name, size, begin, end);
  };
  if (name == "byte_bpe") {
    const auto& options = chosen.as<ByteBpeOptions>();
    if (!options.trains()) return read_byte_bpe(options);
    const auto last = static_cast<std::int32_t>(*options.size - 1);
    return described(*options.size, last, last);
  }
  if (name == "wordpiece") {
    const auto& options = chosen.as<WordPieceOptions>();
    return options.trains() ? described(*options.size, kWordBegin, kWordEnd) : read_wordpiece(options);
  }
  if (learns_pieces(name)) return described(chosen.as<SentencePieceOptions>().size, kPieceBegin, kPieceEnd);
  const Index size = chosen.as<VocabularyOptions>().size;
  return size == 0 ? nullptr : described(size, Vocabulary::kEnd, Vocabulary::kEnd);
}

}  // namespace tandem::datasets
