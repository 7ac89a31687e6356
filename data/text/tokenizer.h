// Tokenizers: text as pieces, and back. Which numbers the pieces have is a Vocabulary's affair.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options/registry.h"

namespace tandem::datasets {

// A pure function of the text; usable from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string name() const = 0;
  // Whether every piece is one character.
  virtual bool of_characters() const { return false; }
  // Whether texts that differ in case alone have the same pieces.
  virtual bool drops_case() const { return false; }
  // Each byte of `text` that is no UTF-8 counts as U+FFFD. Who reads a file knows the place, and refuses it
  // before (require_utf8).
  std::vector<std::string> encode(std::string_view text) const;
  // A text that has these pieces; what separated words is not kept.
  virtual std::string decode(std::span<const std::string> pieces) const = 0;

 private:
  virtual std::vector<std::string> pieces_of(std::string_view utf8) const = 0;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// "words", of `words_of`; "spaces", what stands between spaces and tabs, as in corpora that are published in
// pieces ("<unk>" stays one); "characters", of Unicode, one a code point.
using TokenizerRegistry = options::Registry<TokenizerPtr()>;
const TokenizerRegistry& tokenizers();

// A word is a run of letters, marks and numbers of any script and of apostrophes, in lower case; a curly
// apostrophe within one is a straight one. "." ends a sentence and is a word of its own, once; everything
// else separates: spaces, dashes, quotes, signs. `text` is UTF-8.
std::vector<std::string> words_of(std::string_view text);

// Throws UserError in the name of `where`, with the byte and its place in `text`, counted from 1, unless it
// is UTF-8.
void require_utf8(std::string_view text, std::string_view where);

}  // namespace tandem::datasets
