// Codec "wordpiece": words of BERT (Devlin et al., 2019) as their longest pieces.
//
// Basic tokenization cuts a text at white space and around punctuation and Chinese characters; the longest
// prefix of a word in the vocabulary is its first piece, and the rest goes on with pieces "##…". A word
// without pieces is "[UNK]". Spaces are lost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/partition.h"
#include "data/text/codec.h"

namespace tandem::datasets {

// Of a trained vocabulary: [CLS] and [SEP].
inline constexpr std::int32_t kWordBegin = 2, kWordEnd = 3;

// Either a vocabulary file, or the size of one that is trained.
struct WordPieceOptions {
  std::optional<std::string> vocab{};  // vocab.txt: a piece per line, its id is the line's number from 0
  std::optional<Index> size{};         // largest size, [PAD], [UNK], [CLS], [SEP] and [MASK] included
  Index min_count = 2;                 // rarer pairs are not merged
  bool lower_case = true;              // also removes accents
  static const options::Schema& schema();
  bool trains() const { return size.has_value(); }
};

CodecRegistry::Entry wordpiece_entry();

TextCodecPtr read_wordpiece(const WordPieceOptions& file);
TextCodecPtr recall_wordpiece(const nlohmann::ordered_json& description, const std::string& where);

// Special pieces of a codec "wordpiece"; begin() is [CLS], end() is [SEP].
struct WordPieceMarks {
  std::int32_t padding = 0, mask = 0;
};
// Throws InternalError for another codec.
WordPieceMarks wordpiece_marks(const TextCodec& codec);

// Ids as of encode(), and for each the bytes of the text that it stands for, dropped accents included.
struct PlacedText : EncodedText {
  std::vector<Range> places{};
};
// Throws InternalError for another codec.
PlacedText encode_with_places(const TextCodec& codec, std::string_view text);

// Basic tokenization: words as UTF-8. `uncased`: in lower case, character by character, and without
// accents.
std::vector<std::string> bert_words(std::string_view text, bool uncased);
// The same with the bytes of the text that each character of a word comes from.
struct PlacedWord {
  std::string text;
  std::vector<Range> places{};
};
std::vector<PlacedWord> placed_bert_words(std::string_view text, bool uncased);

}  // namespace tandem::datasets
