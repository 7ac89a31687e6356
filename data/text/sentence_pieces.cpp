#include "data/text/sentence_pieces.h"

#include <fmt/core.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/options/check.h"
#include "core/printable.h"
#include "files/base64.h"

namespace tandem::datasets {

namespace {

constexpr std::int32_t kPieceUnknown = 0;
constexpr Index kMaxTextBytes = Index{1} << 20;  // of a training text; the library ignores longer ones
constexpr std::size_t kMaxModelBytes = std::size_t{1} << 30;

// The library's message, without the place in its sources.
std::string reason(const sentencepiece::util::Status& status) {
  const std::string text = status.error_message();
  const std::size_t place = text.find("] ");
  return printable(place == std::string::npos ? text : text.substr(place + 2));
}

class SentencePieceCodec final : public TextCodec {
 public:
  SentencePieceCodec(std::string name, std::string model, const std::string& where)
      : name_(std::move(name)), model_(std::move(model)) {
    const auto status = processor_.LoadFromSerializedProto(model_);
    require(status.ok(), where, "the model of pieces is damaged: {}", reason(status));
    require(processor_.unk_id() == kPieceUnknown && processor_.bos_id() == kPieceBegin &&
                processor_.eos_id() == kPieceEnd,
            where, "the model of pieces has unknown, begin and end at {}, {} and {}, expected {}, {} and {}",
            processor_.unk_id(), processor_.bos_id(), processor_.eos_id(), kPieceUnknown, kPieceBegin,
            kPieceEnd);
  }

  std::string name() const override { return name_; }
  Index size() const override { return processor_.GetPieceSize(); }
  std::int32_t unknown() const override { return kPieceUnknown; }
  std::int32_t begin() const override { return kPieceBegin; }
  std::int32_t end() const override { return kPieceEnd; }
  // The normalisation rules have the library's own format; encoding "A" shows their effect.
  bool drops_case() const override {
    std::vector<std::string> pieces;
    check(processor_.Encode("A", &pieces));
    return std::ranges::none_of(pieces, [](const std::string& piece) { return piece.ends_with('A'); });
  }

  EncodedText encode(std::string_view text) const override {
    std::vector<int> ids;
    check(processor_.Encode(valid_utf8(text), &ids));
    return {{ids.begin(), ids.end()}, std::ranges::count(ids, kPieceUnknown)};
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::vector<int> kept;
    for (const std::int32_t id : ids) {
      require_id(id);
      if (id != kPieceBegin && id != kPieceEnd) kept.push_back(id);
    }
    std::string text;
    check(processor_.Decode(kept, &text));
    return text;
  }
  std::string piece(std::int32_t id) const override {
    require_id(id);
    return processor_.IdToPiece(id);
  }
  nlohmann::ordered_json description() const override {
    return {{"name", name_}, {"model", files::base64(model_)}};
  }

 private:
  void require_id(std::int32_t id) const {
    require(id >= 0 && id < size(), "codec", "there is no piece {} among {}", id, size());
  }
  static void check(const sentencepiece::util::Status& status) {
    if (!status.ok()) throw VendorError("sentencepiece", reason(status));
  }

  std::string name_, model_;
  sentencepiece::SentencePieceProcessor processor_;
};

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::span<const std::string_view> texts) : texts_(texts) { read(); }

  bool done() const override { return next_ == texts_.size(); }
  void Next() override {
    ++next_;
    read();
  }
  const std::string& value() const override { return value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void read() {
    if (!done()) value_ = valid_utf8(texts_[next_]);
  }

  std::span<const std::string_view> texts_;
  std::size_t next_ = 0;
  std::string value_;
};

TextCodecPtr learn(const std::string& name, const SentencePieceOptions& options, const CodecTexts& from) {
  options::require_sound("codec", SentencePieceOptions::schema(), &options);
  const auto blank = [](std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  };
  require(!std::ranges::all_of(from.texts, blank), from.where,
          "the {} training texts have no piece (codec {})", from.texts.size(), name);
  Sentences sentences(from.texts);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", name},
       {"vocab_size", std::to_string(options.size)},
       {"character_coverage", fmt::format("{}", options.coverage)},
       {"normalization_rule_name",
        options::EnumNames<PieceNormalization>::values[static_cast<std::size_t>(options.normalization)]},
       {"unk_id", std::to_string(kPieceUnknown)},
       {"bos_id", std::to_string(kPieceBegin)},
       {"eos_id", std::to_string(kPieceEnd)},
       {"pad_id", "-1"},
       {"max_sentence_length", std::to_string(kMaxTextBytes)},
       {"num_threads", "1"},
       {"minloglevel", "2"}},
      &sentences, &model);
  require(status.ok(), from.where,
          "{} pieces of kind {} cannot be learnt from {} texts; set another size or coverage. SentencePiece "
          "says: {}",
          options.size, name, from.texts.size(), reason(status));
  return std::make_shared<const SentencePieceCodec>(name, std::move(model), from.where);
}

CodecRegistry::Entry entry(const std::string& name, std::string help) {
  return CodecRegistry::entry<SentencePieceOptions>(
      name, std::move(help), SentencePieceOptions::schema(),
      [name](const SentencePieceOptions& options, const CodecTexts& from) {
        return learn(name, options, from);
      });
}

}  // namespace

const options::Schema& SentencePieceOptions::schema() {
  static const options::Schema schema =
      options::Describe<SentencePieceOptions>()
          .key("size", &SentencePieceOptions::size, "number of pieces, including unknown, begin and end",
               {.min = 4, .max = 1 << 20})
          .key("coverage", &SentencePieceOptions::coverage,
               "share of the training text's characters that pieces cover; others are unknown",
               {.min = 0.9, .max = 1.0})
          .key("normalization", &SentencePieceOptions::normalization,
               "Unicode normalization of a text before it is cut; cf: also to lower case")
          .short_key("size");
  return schema;
}

CodecRegistry::Entry unigram_entry() {
  return entry("unigram", "subwords of a unigram model learnt by SentencePiece");
}

CodecRegistry::Entry bpe_entry() {
  return entry("bpe", "subwords of byte-pair encoding learnt by SentencePiece");
}

bool learns_pieces(std::string_view codec) { return codec == "unigram" || codec == "bpe"; }

TextCodecPtr recall_sentence_pieces(const std::string& name, const std::string& model,
                                    const std::string& where) {
  require(model.size() / 4 * 3 <= kMaxModelBytes, where,
          "a model of pieces of {} bytes, at most {} are allowed", model.size() / 4 * 3, kMaxModelBytes);
  return std::make_shared<const SentencePieceCodec>(name, files::from_base64(model, where), where);
}

}  // namespace tandem::datasets
