#include "data/text/byte_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/options/check.h"
#include "core/printable.h"
#include "data/text/bpe_training.h"
#include "data/text/byte_names.h"
#include "data/text/gpt2_split.h"
#include "data/text/pair_merger.h"
#include "data/text/unicode.h"
#include "files/json_text.h"

namespace tandem::datasets {

namespace {

constexpr const char* kByteBpe = "byte_bpe";
constexpr Index kByteCount = 256;

// Ids of pieces that were encoded before.
class PieceCache {
 public:
  // `encode(piece, ids)` appends the ids of a piece that is not known.
  template <class Encode>
  void append(std::string_view piece, std::vector<std::int32_t>& ids, const Encode& encode) {
    if (piece.size() > kLongest) return encode(piece, ids);
    auto found = places_.find(piece);
    if (found == places_.end()) {
      if (places_.size() == kMost) {
        places_.clear();
        ids_.clear();
      }
      const std::size_t first = ids_.size();
      encode(piece, ids_);
      found = places_.emplace(piece, Place{first, ids_.size() - first}).first;
    }
    const auto begin = ids_.begin() + static_cast<std::ptrdiff_t>(found->second.first);
    ids.insert(ids.end(), begin, begin + static_cast<std::ptrdiff_t>(found->second.count));
  }

 private:
  static constexpr std::size_t kLongest = 64, kMost = std::size_t{1} << 18;
  struct Place {
    std::size_t first, count;
  };
  TextMap<Place> places_;
  std::vector<std::int32_t> ids_;
};

// Leftmost special tokens of a text; of several at one place, the longest.
class SpecialTokens {
 public:
  SpecialTokens(const BytePairs& pairs, std::string_view text) : text_(text) {
    for (const std::int32_t id : pairs.special)
      next_.push_back({pairs.tokens[static_cast<std::size_t>(id)], id, 0});
    for (Next& token : next_) token.place = text_.find(token.text);
  }

  struct Next {
    std::string_view text;
    std::int32_t id;
    std::size_t place;  // npos: not in the rest of the text
  };
  // The first at or after `from`; nullptr if there is none.
  const Next* after(std::size_t from) {
    const Next* first = nullptr;
    for (Next& token : next_) {
      if (token.place < from) token.place = text_.find(token.text, from);
      if (token.place == std::string_view::npos) continue;
      if (!first || token.place < first->place ||
          (token.place == first->place && token.text.size() > first->text.size()))
        first = &token;
    }
    return first;
  }

 private:
  std::string_view text_;
  std::vector<Next> next_;
};

class ByteBpeCodec final : public TextCodec {
 public:
  ByteBpeCodec(BytePairs pairs, bool special_in_text, const std::string& end, const std::string& where)
      : pairs_(std::move(pairs)), special_in_text_(special_in_text), merger_(pairs_, where) {
    const auto text_of = [&](std::int32_t id) { return pairs_.tokens[static_cast<std::size_t>(id)]; };
    if (pairs_.special.empty()) {
      pairs_.special.push_back(static_cast<std::int32_t>(pairs_.tokens.size()));
      pairs_.tokens.push_back(end);
    }
    const auto found = std::ranges::find(pairs_.special, end, text_of);
    std::vector<std::string> special;
    for (const std::int32_t id : pairs_.special) special.push_back(text_of(id));
    require(found != pairs_.special.end(), where,
            "has no special token \"{}\"; set the codec's `end` to one that it has: {}", printable(end),
            printable(fmt::format("{}", fmt::join(special, ", "))));
    end_ = *found;
  }

  std::string name() const override { return kByteBpe; }
  Index size() const override { return static_cast<Index>(pairs_.tokens.size()); }
  std::int32_t unknown() const override { return end_; }
  std::int32_t begin() const override { return end_; }
  std::int32_t end() const override { return end_; }
  bool drops_case() const override { return false; }
  bool keeps_line_ends() const override { return true; }

  EncodedText encode(std::string_view text) const override {
    EncodedText encoded;
    const std::scoped_lock lock(mutex_);
    if (!special_in_text_) {
      append(text, encoded.ids);
      return encoded;
    }
    SpecialTokens special(pairs_, text);
    std::size_t at = 0;
    while (const SpecialTokens::Next* const next = special.after(at)) {
      append(text.substr(at, next->place - at), encoded.ids);
      encoded.ids.push_back(next->id);
      at = next->place + next->text.size();
    }
    append(text.substr(at), encoded.ids);
    return encoded;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      require_piece(id);
      if (id != end_) text += pairs_.tokens[static_cast<std::size_t>(id)];
    }
    return text;
  }

  std::string piece(std::int32_t id) const override {
    require_piece(id);
    const std::string& token = pairs_.tokens[static_cast<std::size_t>(id)];
    return std::ranges::binary_search(pairs_.special, id) ? token : name_of_bytes(token);
  }

  // "unicode" is the version of the tables that split texts: new letters move splits.
  nlohmann::ordered_json description() const override {
    nlohmann::ordered_json all{{"name", kByteBpe},
                               {"unicode", unicode_version()},
                               {"end", piece(end_)},
                               {"prefix_space", pairs_.prefix_space},
                               {"special_tokens_in_text", special_in_text_},
                               {"special", pairs_.special},
                               {"tokens", token_names(pairs_)}};
    if (!pairs_.merges_by_id) all["merges"] = merge_names(pairs_);
    return all;
  }

 private:
  void require_piece(std::int32_t id) const {
    require(id >= 0 && id < size(), "codec", "there is no piece {} among {}", id, size());
  }

  // With the mutex held.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const {
    const auto encode = [&](std::string_view piece, std::vector<std::int32_t>& to) {
      merger_.append(piece, to);
    };
    if (pairs_.prefix_space && !text.empty() && text[0] != ' ') {
      const std::string spaced = " " + std::string(text);
      return append(spaced, ids);
    }
    while (!text.empty()) {
      const std::string_view piece = first_piece(text);
      cache_.append(piece, ids, encode);
      text.remove_prefix(piece.size());
    }
  }

  BytePairs pairs_;
  bool special_in_text_;
  PairMerger merger_;
  std::int32_t end_ = 0;
  mutable std::mutex mutex_;
  mutable PieceCache cache_;
};

ByteBpeOptions kept_options(const nlohmann::ordered_json& description) {
  return {.end = description.at("end").get<std::string>(),
          .special_tokens_in_text = description.at("special_tokens_in_text").get<bool>()};
}

TextCodecPtr train_byte_bpe(const ByteBpeOptions& options, const CodecTexts& from) {
  WordCounts counts;
  for (std::string_view text : from.texts) {
    while (!text.empty()) {
      const std::string_view piece = first_piece(text);
      add_word(piece, counts);
      text.remove_prefix(piece.size());
    }
  }
  require(!counts.empty(), from.where, "the {} training texts have no piece (codec {})", from.texts.size(),
          kByteBpe);
  std::vector<std::string> alphabet;
  std::array<std::int32_t, kByteCount> id_of_byte{};
  for (const unsigned char byte : bytes_by_name()) {
    id_of_byte[byte] = static_cast<std::int32_t>(alphabet.size());
    alphabet.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<CountedWord> words;
  words.reserve(counts.size());
  for (const auto& [word, count] : counts) {
    words.push_back({{}, count});
    for (const char byte : word) words.back().symbols.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
  }
  TrainedBpe trained = train_bpe(std::move(alphabet), std::move(words),
                                 {.size = *options.size - 1, .min_count = options.min_count});
  return make_byte_bpe(
      {.tokens = std::move(trained.pieces), .special = {}, .merges = std::move(trained.merges)}, options,
      from.where);
}

}  // namespace

const options::Schema& ByteBpeOptions::schema() {
  static const options::Schema schema =
      options::Describe<ByteBpeOptions>()
          .key("size", &ByteBpeOptions::size,
               "trains a tokenizer of this largest size, including 256 bytes and the end; null: reads files",
               {.min = kByteCount + 1, .max = 1 << 20})
          .key("min_count", &ByteBpeOptions::min_count,
               "training: pairs with fewer occurrences are not merged", {.min = 1})
          .key("vocab", &ByteBpeOptions::vocab, "file vocab.json of a trained tokenizer, with `merges`")
          .key("merges", &ByteBpeOptions::merges, "file merges.txt of a trained tokenizer, with `vocab`")
          .key("tokenizer", &ByteBpeOptions::tokenizer,
               "file of a trained tokenizer: tokenizer.json or tiktoken's .tiktoken")
          .key("end", &ByteBpeOptions::end, "special token at the end of a text; a trained tokenizer gets it")
          .key("special_tokens_in_text", &ByteBpeOptions::special_tokens_in_text,
               "encode special tokens in the text, such as the end, as their ids instead of as characters")
          .rule("vocab", "and merges come together",
                [](const ByteBpeOptions& o) { return o.vocab.has_value() == o.merges.has_value(); })
          .rule("size",
                "trains a tokenizer, `tokenizer` or `vocab` and `merges` read one; set exactly one of these",
                [](const ByteBpeOptions& o) {
                  return o.size.has_value() + o.tokenizer.has_value() + o.vocab.has_value() == 1;
                })
          .rule("end", "must not be empty", [](const ByteBpeOptions& o) { return !o.end.empty(); })
          .short_key("size");
  return schema;
}

CodecRegistry::Entry byte_bpe_entry() {
  return CodecRegistry::entry<ByteBpeOptions>(
      kByteBpe, "subwords of bytes, as in GPT-2: read from its files, or trained", ByteBpeOptions::schema(),
      [](const ByteBpeOptions& options, const CodecTexts& from) {
        options::require_sound("codec", ByteBpeOptions::schema(), &options);
        return options.trains() ? train_byte_bpe(options, from) : read_byte_bpe(options);
      });
}

TextCodecPtr read_byte_bpe(const ByteBpeOptions& files) {
  options::require_sound("codec", ByteBpeOptions::schema(), &files);
  if (files.tokenizer) return make_byte_bpe(read_tokenizer_file(*files.tokenizer), files, *files.tokenizer);
  return make_byte_bpe(read_vocab_and_merges(*files.vocab, *files.merges), files, *files.vocab);
}

TextCodecPtr make_byte_bpe(BytePairs pairs, const ByteBpeOptions& options, const std::string& where) {
  return std::make_shared<const ByteBpeCodec>(std::move(pairs), options.special_tokens_in_text, options.end,
                                              where);
}

TextCodecPtr recall_byte_bpe(const nlohmann::ordered_json& description, const std::string& where) {
  const bool by_id = !description.contains("merges");
  const auto merges =
      by_id ? std::vector<std::string>() : description.at("merges").get<std::vector<std::string>>();
  BytePairs pairs =
      byte_pairs_of_names(description.at("tokens").get<std::vector<std::string>>(),
                          description.at("special").get<std::vector<std::int32_t>>(), merges, where);
  pairs.merges_by_id = by_id;
  pairs.prefix_space = description.at("prefix_space").get<bool>();
  return make_byte_bpe(std::move(pairs), kept_options(description), where);
}

}  // namespace tandem::datasets
