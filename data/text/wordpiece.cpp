#include "data/text/wordpiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/options/check.h"
#include "core/printable.h"
#include "data/text/bpe_training.h"
#include "data/text/tokenizer.h"
#include "data/text/unicode.h"
#include "files/byte_order_mark.h"
#include "files/input.h"

namespace tandem::datasets {

namespace {

constexpr const char* kWordPiece = "wordpiece";
constexpr std::string_view kWithin = "##";  // begins pieces that are not the first of a word
constexpr std::size_t kLongestWord = 200;   // in characters; longer ones are unknown
constexpr std::array<const char*, 5> kMarks{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::uint64_t kMaxVocabBytes = std::uint64_t{1} << 28;

std::size_t characters_in(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

class WordPieceCodec final : public TextCodec {
 public:
  WordPieceCodec(std::vector<std::string> pieces, bool uncased, const std::string& where)
      : pieces_(std::move(pieces)), uncased_(uncased) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      require(!pieces_[i].empty(), where, "piece {} is empty; remove the line, or pass BERT's vocab.txt", i);
      const auto [found, fresh] = ids_.emplace(pieces_[i], static_cast<std::int32_t>(i));
      require(fresh, where, "pieces {} and {} are both \"{}\"", found->second, i,
              shortened(printable(pieces_[i]), 60));
      longest_ = std::max(longest_, pieces_[i].size());
    }
    for (std::size_t i = 0; i < kMarks.size(); ++i) {
      const auto found = ids_.find(std::string_view(kMarks[i]));
      require(found != ids_.end(), where, "has no piece \"{}\"; add it as a line, as in BERT's vocab.txt",
              kMarks[i]);
      marks_[i] = found->second;
    }
  }

  std::string name() const override { return kWordPiece; }
  Index size() const override { return static_cast<Index>(pieces_.size()); }
  std::int32_t unknown() const override { return marks_[1]; }
  std::int32_t begin() const override { return marks_[2]; }
  std::int32_t end() const override { return marks_[3]; }
  bool drops_case() const override { return uncased_; }
  WordPieceMarks marks() const { return {.padding = marks_[0], .mask = marks_[4]}; }

  EncodedText encode(std::string_view text) const override {
    EncodedText encoded;
    for (const std::string& word : bert_words(text, uncased_)) append(word, encoded);
    return encoded;
  }

  PlacedText encode_with_places(std::string_view text) const {
    PlacedText encoded;
    for (const PlacedWord& word : placed_bert_words(text, uncased_)) {
      std::vector<std::size_t> ends;
      append(word.text, encoded, &ends);
      std::size_t byte = 0, first = 0;  // of the piece, and its first character
      for (const std::size_t end : ends) {
        const std::size_t last = first + characters_in(std::string_view(word.text).substr(byte, end - byte));
        encoded.places.push_back({word.places[first].first, word.places[last - 1].last});
        byte = end;
        first = last;
      }
    }
    return encoded;
  }

  // A space before each piece, except those within words.
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      const std::string_view piece = piece_of(id);
      if (id == begin() || id == end()) continue;
      const bool within = piece.starts_with(kWithin) && piece.size() > kWithin.size();
      if (!text.empty() && !within) text += ' ';
      text += within ? piece.substr(kWithin.size()) : piece;
    }
    return text;
  }
  std::string piece(std::int32_t id) const override { return std::string(piece_of(id)); }

  // "unicode" is the version of the tables that cut texts.
  nlohmann::ordered_json description() const override {
    return {
        {"name", kWordPiece}, {"unicode", unicode_version()}, {"lower_case", uncased_}, {"pieces", pieces_}};
  }

 private:
  std::string_view piece_of(std::int32_t id) const {
    require(id >= 0 && id < size(), "codec", "there is no piece {} among {}", id, size());
    return pieces_[static_cast<std::size_t>(id)];
  }

  // `ends`: receives the end of each piece, in bytes of the word.
  void append(std::string_view word, EncodedText& to, std::vector<std::size_t>* ends = nullptr) const {
    const std::size_t before = to.ids.size();
    const auto give_up = [&] {
      to.ids.resize(before);
      to.ids.push_back(unknown());
      ++to.unknown;
      if (ends) *ends = {word.size()};
    };
    if (characters_in(word) > kLongestWord) return give_up();
    std::string candidate;
    for (std::size_t at = 0; at < word.size();) {
      candidate.assign(at == 0 ? std::string_view() : kWithin);
      const std::size_t prefix = candidate.size();
      candidate += word.substr(at, longest_);
      auto found = ids_.find(std::string_view(candidate));
      while (found == ids_.end() && candidate.size() > prefix) {
        candidate.pop_back();  // bytes within a character are no end of a piece
        found = candidate.size() > prefix ? ids_.find(std::string_view(candidate)) : ids_.end();
      }
      if (found == ids_.end()) return give_up();
      to.ids.push_back(found->second);
      at += candidate.size() - prefix;
      if (ends) ends->push_back(at);
    }
  }

  std::vector<std::string> pieces_;
  bool uncased_;
  TextMap<std::int32_t> ids_;
  std::size_t longest_ = 0;  // bytes of a piece
  std::array<std::int32_t, kMarks.size()> marks_{};
};

TextCodecPtr train_wordpiece(const WordPieceOptions& options, const CodecTexts& from) {
  WordCounts counts;
  for (const std::string_view text : from.texts) count_words(bert_words(text, options.lower_case), counts);
  require(!counts.empty(), from.where, "the {} training texts have no word (codec {})", from.texts.size(),
          kWordPiece);
  TextMap<std::int32_t> alphabet;
  struct Word {
    std::vector<std::string> characters;
    std::int64_t count;
  };
  std::vector<Word> split;
  split.reserve(counts.size());
  for (const auto& [word, count] : counts) {
    if (characters_in(word) > kLongestWord) continue;
    split.push_back({{}, count});
    std::string_view rest = word;
    while (!rest.empty()) {
      const std::size_t bytes = first_character(rest).bytes;
      std::string character(rest.size() == word.size() ? std::string_view() : kWithin);
      character += rest.substr(0, bytes);
      rest.remove_prefix(bytes);
      alphabet.emplace(character, 0);
      split.back().characters.push_back(std::move(character));
    }
  }
  std::vector<std::string> pieces;
  for (const auto& [character, id] : alphabet) pieces.push_back(character);
  std::ranges::sort(pieces);
  const Index least = static_cast<Index>(pieces.size() + kMarks.size());
  require(*options.size >= least, from.where,
          "{} pieces of codec {} are too few for the {} characters of the training texts and {} special "
          "pieces; set a size of at least {}",
          *options.size, kWordPiece, pieces.size(), kMarks.size(), least);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    alphabet.find(pieces[i])->second = static_cast<std::int32_t>(i);
  std::vector<CountedWord> words;
  words.reserve(split.size());
  for (const auto& [characters, count] : split) {
    words.push_back({{}, count});
    for (const std::string& character : characters)
      words.back().symbols.push_back(alphabet.find(character)->second);
  }
  const TrainedBpe trained = train_bpe(std::move(pieces), std::move(words),
                                       {.size = *options.size - static_cast<Index>(kMarks.size()),
                                        .min_count = options.min_count,
                                        .prefix = std::string(kWithin)});
  std::vector<std::string> all(kMarks.begin(), kMarks.end());
  all.insert(all.end(), trained.pieces.begin(), trained.pieces.end());
  return std::make_shared<const WordPieceCodec>(std::move(all), options.lower_case, from.where);
}

}  // namespace

const options::Schema& WordPieceOptions::schema() {
  static const options::Schema schema =
      options::Describe<WordPieceOptions>()
          .key("size", &WordPieceOptions::size,
               "trains a vocabulary of this largest size, including 5 special pieces; null: reads `vocab`",
               {.min = static_cast<double>(kMarks.size() + 1), .max = 1 << 20})
          .key("min_count", &WordPieceOptions::min_count,
               "training: pairs with fewer occurrences are not merged", {.min = 1})
          .key("vocab", &WordPieceOptions::vocab, "file vocab.txt of a trained vocabulary, a piece per line")
          .key("lower_case", &WordPieceOptions::lower_case, "lower case without accents (BERT's \"uncased\")")
          .rule("size", "trains a vocabulary, `vocab` reads one; set exactly one of these",
                [](const WordPieceOptions& o) { return o.size.has_value() != o.vocab.has_value(); })
          .short_key("size");
  return schema;
}

CodecRegistry::Entry wordpiece_entry() {
  return CodecRegistry::entry<WordPieceOptions>(
      kWordPiece, "subwords of words without spaces, as in BERT: read from its file, or trained",
      WordPieceOptions::schema(), [](const WordPieceOptions& options, const CodecTexts& from) {
        options::require_sound("codec", WordPieceOptions::schema(), &options);
        return options.trains() ? train_wordpiece(options, from) : read_wordpiece(options);
      });
}

TextCodecPtr read_wordpiece(const WordPieceOptions& file) {
  const std::string& path = *file.vocab;
  const std::string text = files::read_text(path, kMaxVocabBytes);
  std::vector<std::string> pieces;
  files::each_line(files::without_byte_order_mark(text), [&](std::string_view line, bool) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    require_utf8(line, fmt::format("{}:{}", path, pieces.size() + 1));
    pieces.emplace_back(line);
  });
  require(!pieces.empty(), path, "is empty; pass BERT's vocab.txt, a piece per line");
  return std::make_shared<const WordPieceCodec>(std::move(pieces), file.lower_case, path);
}

TextCodecPtr recall_wordpiece(const nlohmann::ordered_json& description, const std::string& where) {
  return std::make_shared<const WordPieceCodec>(description.at("pieces").get<std::vector<std::string>>(),
                                                description.at("lower_case").get<bool>(), where);
}

WordPieceMarks wordpiece_marks(const TextCodec& codec) {
  const auto* const own = dynamic_cast<const WordPieceCodec*>(&codec);
  ensure(own != nullptr, "codec", "{} has no mask", codec.name());
  return own->marks();
}

PlacedText encode_with_places(const TextCodec& codec, std::string_view text) {
  const auto* const own = dynamic_cast<const WordPieceCodec*>(&codec);
  ensure(own != nullptr, "codec", "{} gives no offsets of its pieces", codec.name());
  return own->encode_with_places(text);
}

}  // namespace tandem::datasets
