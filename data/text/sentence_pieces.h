// Codecs "unigram" and "bpe": pieces of words that SentencePiece learns from the training text.
//
// unigram: Kudo, "Subword regularization", ACL 2018. bpe: Sennrich et al., "Neural machine translation of
// rare words with subword units", ACL 2016. A space is the piece "▁" or the beginning of one, so that a
// decoded text is its pieces one after the other. Ids: 0 unknown, 1 begin, 2 end, and the pieces; there is no
// padding. Learning takes one thread, with which the same texts give the same bytes.
#pragma once

#include "data/text/codec.h"

namespace tandem::datasets {

inline constexpr std::int32_t kPieceBegin = 1, kPieceEnd = 2;

enum class PieceNormalization : std::uint8_t { identity, nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf };

struct SentencePieceOptions {
  Index size = 8000;         // exactly so many, the special ones included
  double coverage = 0.9995;  // share of the text's characters that have a piece, the most frequent ones
  // Done to a text before anything else, and not undone: by the rules of that name. White space at the ends
  // of a text goes, and what is longer than one space within, in any case.
  PieceNormalization normalization = PieceNormalization::identity;
  static const options::Schema& schema();
};

// Throw UserError where the texts do not give so many pieces, or have more characters than that.
CodecRegistry::Entry unigram_entry();
CodecRegistry::Entry bpe_entry();

// Whether a codec of that name is one of these.
bool learns_pieces(std::string_view codec);

// `model`: the library's, in base64. Throws UserError in the name of `where` for one that it does not take or
// that has other special numbers.
TextCodecPtr recall_sentence_pieces(const std::string& name, const std::string& model,
                                    const std::string& where);

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::PieceNormalization> {
  static constexpr std::array values{"identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"};
};
