// TextCodec: conversion between text and ids, in one object that is stored with the weights.
//
// Codecs by name: a Tokenizer with a Vocabulary ("words", "spaces", "characters"); subwords that are learnt
// ("unigram", "bpe": data/text/sentence_pieces.h); and subwords whose files are exchanged ("byte_bpe":
// data/text/byte_bpe.h, "wordpiece": data/text/wordpiece.h).
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/options/registry.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

// A pure function of the text; thread-safe. Ids are 0 … size() - 1.
class TextCodec {
 public:
  virtual ~TextCodec() = default;

  virtual std::string name() const = 0;  // of its entry in codecs()
  virtual Index size() const = 0;
  virtual std::int32_t unknown() const = 0;  // end() if every text has ids
  virtual std::int32_t begin() const = 0;    // first input of a decoder; may equal end()
  virtual std::int32_t end() const = 0;      // end of a sequence
  virtual bool drops_case() const = 0;       // true if decoded text is lower case
  // True if decoding gives the encoded bytes back, line ends included.
  virtual bool keeps_line_ends() const { return false; }

  // Ids without begin and end, which no text encodes to; none for an empty text. Invalid UTF-8 bytes count as
  // U+FFFD.
  virtual EncodedText encode(std::string_view text) const = 0;
  // Skips begin and end anywhere. Ids in an unlikely order may give invalid UTF-8 if keeps_line_ends().
  // Throws UserError for an unknown id.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  // A text as decoding would write it if every piece had an id.
  virtual std::string written(std::string_view text) const { return std::string(text); }
  // Text of an id, as the codec writes it. Throws UserError for an unknown id.
  virtual std::string piece(std::int32_t id) const = 0;

  // Input of recall_codec. Codecs of equal descriptions are equal.
  virtual nlohmann::ordered_json description() const = 0;
};

using TextCodecPtr = std::shared_ptr<const TextCodec>;

// Texts that a codec is built from, the training part, and their origin for messages.
struct CodecTexts {
  std::span<const std::string_view> texts;
  std::string where;
};

// Construction throws UserError on texts without a piece, and on more pieces than the texts have.
using CodecRegistry = options::Registry<TextCodecPtr(const CodecTexts&)>;
CodecRegistry& codecs();
using CodecChoice = options::Choice<codecs>;

// The codec under the tokenizer's name.
TextCodecPtr vocabulary_codec(TokenizerPtr tokenizer, Vocabulary vocabulary);

// True if the chosen codec keeps line ends (TextCodec::keeps_line_ends), before it is made.
bool keeps_line_ends(const CodecChoice& choice);

// Restores a codec from its description(). Throws UserError in the name of `where` for a damaged one.
TextCodecPtr recall_codec(const nlohmann::ordered_json& description, const std::string& where);

// A codec for estimates before data is read, with the largest size and the special ids of the chosen one;
// encode, decode and piece throw InternalError. nullptr if the size is unbounded.
TextCodecPtr described_codec(const options::Chosen& chosen);

}  // namespace tandem::datasets
