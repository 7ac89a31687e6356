// TextCodec: text as numbers and numbers as text, in one object that can be kept with the weights.
//
// Codecs by name: the pieces of a Tokenizer with a Vocabulary ("words", "spaces", "characters"), and pieces
// of words that are learnt ("unigram", "bpe": data/text/sentence_pieces.h).
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/options/registry.h"
#include "data/text/vocabulary.h"

namespace tandem::datasets {

// A pure function of the text; usable from several threads at once. Ids are 0 … size() - 1.
class TextCodec {
 public:
  virtual ~TextCodec() = default;

  virtual std::string name() const = 0;  // of its entry in codecs()
  virtual Index size() const = 0;
  virtual std::int32_t unknown() const = 0;
  virtual std::int32_t begin() const = 0;  // what a decoder is given first; it may be end()
  virtual std::int32_t end() const = 0;    // what a sequence is followed by
  virtual bool drops_case() const = 0;     // whether what it decodes is in lower case throughout

  // Without begin and end, which no text can stand for. A byte that is no UTF-8 counts as U+FFFD. An empty
  // text has no ids.
  virtual EncodedText encode(std::string_view text) const = 0;
  // Begin and end are left out wherever they stand. Throws UserError for a number that is none of its ids.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  // What the number stands for, as the codec writes it. Throws UserError as decode does.
  virtual std::string piece(std::int32_t id) const = 0;

  // All that recall_codec needs. Codecs of equal descriptions are alike.
  virtual nlohmann::ordered_json description() const = 0;
};

using TextCodecPtr = std::shared_ptr<const TextCodec>;

// What a codec is made from: texts to count or to learn, the training part, and whose they are, for messages.
struct CodecTexts {
  std::span<const std::string_view> texts;
  std::string where;
};

// Making one throws UserError on texts without a piece, and on more pieces than the texts give.
using CodecRegistry = options::Registry<TextCodecPtr(const CodecTexts&)>;
const CodecRegistry& codecs();
using CodecChoice = options::Choice<codecs>;

// Of a description() that was read from a file. Throws UserError in the name of `where` for one that is
// damaged.
TextCodecPtr recall_codec(const nlohmann::ordered_json& description, const std::string& where);

// For sizes before anything is read: a codec of as many pieces as the chosen one may have, which has the
// special numbers of such a one; encode, decode and piece throw InternalError. nullptr where there is no
// bound.
TextCodecPtr described_codec(const options::Chosen& chosen);

}  // namespace tandem::datasets
