#include "data/text/tokenizer.h"

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"
#include "data/text/unicode.h"

namespace tandem::datasets {

namespace {

constexpr char32_t kApostrophe = '\'', kCurlyApostrophe = 0x2019, kSoftHyphen = 0xAD;

// Between two letters: the typographic apostrophe, and the joiners of Persian and Indian scripts.
bool joins(char32_t c) { return c == kCurlyApostrophe || c == 0x200C || c == 0x200D; }

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

class Words final : public Tokenizer {
 public:
  std::string name() const override { return "words"; }
  bool drops_case() const override { return true; }
  // A full stop follows its word without a space.
  std::string decode(std::span<const std::string> pieces) const override {
    std::string text;
    for (const std::string& word : pieces) {
      if (!text.empty() && word != ".") text += ' ';
      text += word;
    }
    return text;
  }

 private:
  std::vector<std::string> pieces_of(std::string_view text) const override { return words_of(text); }
};

class Spaces final : public Tokenizer {
 public:
  std::string name() const override { return "spaces"; }
  std::string decode(std::span<const std::string> pieces) const override { return joined(pieces); }

 private:
  std::vector<std::string> pieces_of(std::string_view text) const override {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; (at = text.find_first_not_of(" \t\r\n", at)) != std::string_view::npos;) {
      const std::size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
      pieces.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return pieces;
  }
};

class Characters final : public Tokenizer {
 public:
  std::string name() const override { return "characters"; }
  bool of_characters() const override { return true; }
  std::string decode(std::span<const std::string> pieces) const override {
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    return text;
  }

 private:
  std::vector<std::string> pieces_of(std::string_view text) const override {
    std::vector<std::string> pieces;
    for (const char c : text) {
      const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
      if (!continues) pieces.emplace_back();
      pieces.back() += c;
    }
    return pieces;
  }
};

struct NoKeys {};

template <class T>
TokenizerRegistry::Entry entry(std::string name, std::string help) {
  return TokenizerRegistry::entry<NoKeys>(std::move(name), std::move(help), options::Describe<NoKeys>(),
                                          [](const NoKeys&) { return std::make_shared<const T>(); });
}

}  // namespace

TokenizerRegistry& tokenizers() {
  static TokenizerRegistry family(
      {.what = "tokenizer", .help = "pieces of a text", .fallback = "words"},
      {entry<Words>("words", "runs of letters and digits, in lower case, and full stops"),
       entry<Spaces>("spaces", "words between spaces, unchanged"),
       entry<Characters>("characters", "Unicode characters")});
  return family;
}

std::vector<std::string> Tokenizer::encode(std::string_view text) const {
  return pieces_of(valid_utf8(text));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  while (!text.empty()) {
    const Character here = first_character(text);
    text.remove_prefix(here.bytes);
    const Character next = first_character(text);
    const char32_t c = here.value;
    if (in_words(c) || c == kApostrophe) {
      append_character(word, lower_case(c));
      continue;
    }
    if (c == kSoftHyphen) continue;
    if (joins(c) && !word.empty() && in_words(next.value)) {
      append_character(word, c == kCurlyApostrophe ? kApostrophe : c);
      continue;
    }
    // "3.2" and "e.g" stay whole; a full stop ends a sentence before a space or the end.
    const bool goes_on = next.value < 0x80 ? next.bytes > 0 && !is_space(next.value) : in_words(next.value);
    if (c == '.' && !word.empty() && goes_on) {
      word += '.';
      continue;
    }
    finish();
    if (c == '.' && (words.empty() || words.back() != ".")) words.emplace_back(".");
  }
  finish();
  return words;
}

void require_utf8(std::string_view text, std::string_view where) {
  const std::string valid = valid_utf8(text);
  if (valid == text) [[likely]]
    return;
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(text, valid).in1 - text.begin());
  throw UserError(where, fmt::format("byte {} is 0x{:02x}, expected UTF-8; convert the file (iconv -t UTF-8)",
                                     at + 1, static_cast<unsigned char>(text[at])));
}

}  // namespace tandem::datasets
