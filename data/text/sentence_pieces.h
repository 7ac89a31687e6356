// Codecs "unigram" and "bpe": subwords that SentencePiece learns from the training text.
//
// unigram: Kudo, "Subword regularization", ACL 2018. bpe: Sennrich et al., "Neural machine translation of
// rare words with subword units", ACL 2016. A space is the piece "▁" or the beginning of one, so decoding
// concatenates pieces. Ids: 0 unknown, 1 begin, 2 end, then the pieces; there is no padding. Learning uses
// one thread and is deterministic.
#pragma once

#include "data/text/codec.h"

namespace tandem::datasets {

inline constexpr std::int32_t kPieceBegin = 1, kPieceEnd = 2;

enum class PieceNormalization : std::uint8_t { identity, nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf };

struct SentencePieceOptions {
  Index size = 8000;         // exactly so many, special ones included
  double coverage = 0.9995;  // share of the text's characters that pieces cover, the most frequent ones
  // Normalisation before encoding; it is not undone. White space at the ends is always removed, and runs of
  // it within a text become one space.
  PieceNormalization normalization = PieceNormalization::identity;
  static const options::Schema& schema();
};

// Construction throws UserError when the texts do not give so many pieces, or have more characters.
CodecRegistry::Entry unigram_entry();
CodecRegistry::Entry bpe_entry();

// True for "unigram" and "bpe".
bool learns_pieces(std::string_view codec);

// `model`: the library's, in base64. Throws UserError in the name of `where` when it is invalid or has other
// special ids.
TextCodecPtr recall_sentence_pieces(const std::string& name, const std::string& model,
                                    const std::string& where);

}  // namespace tandem::datasets

template <>
struct tandem::options::EnumNames<tandem::datasets::PieceNormalization> {
  static constexpr std::array values{"identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"};
};
