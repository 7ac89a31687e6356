// Tokenizers: conversion between text and pieces. A Vocabulary maps pieces to ids.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options/registry.h"

namespace tandem::datasets {

// A pure function of the text; thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string name() const = 0;
  // True if each piece is one character.
  virtual bool of_characters() const { return false; }
  // True if texts that differ only in case have equal pieces.
  virtual bool drops_case() const { return false; }
  // Invalid UTF-8 bytes count as U+FFFD. Readers of files, which know the position, reject them earlier
  // (require_utf8).
  std::vector<std::string> encode(std::string_view text) const;
  // A text with these pieces; original separators are lost.
  virtual std::string decode(std::span<const std::string> pieces) const = 0;

 private:
  virtual std::vector<std::string> pieces_of(std::string_view utf8) const = 0;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// "words": see `words_of`; "spaces": words between spaces and tabs, for pre-tokenised corpora ("<unk>" stays
// one); "characters": one per code point.
using TokenizerRegistry = options::Registry<TokenizerPtr()>;
TokenizerRegistry& tokenizers();

// Words are runs of letters, marks and numbers of any script and of apostrophes, in lower case; a curly
// apostrophe becomes a straight one. "." ends a sentence and is a word, once. All other characters separate:
// spaces, dashes, quotes, signs. `text` is UTF-8.
std::vector<std::string> words_of(std::string_view text);

// Throws UserError in the name of `where`, with the byte and its position in `text` from 1, unless `text` is
// UTF-8.
void require_utf8(std::string_view text, std::string_view where);

}  // namespace tandem::datasets
