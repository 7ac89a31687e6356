#include <algorithm>
#include <array>
#include <utility>

#include "data/text/unicode.h"
#include "data/text/wordpiece.h"

namespace tandem::datasets {

namespace {

// Blocks of Chinese characters; kana and hangul are none.
bool is_chinese(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kBlocks{{{0x4E00, 0x9FFF},
                                                                  {0x3400, 0x4DBF},
                                                                  {0x20000, 0x2A6DF},
                                                                  {0x2A700, 0x2B73F},
                                                                  {0x2B740, 0x2B81F},
                                                                  {0x2B820, 0x2CEAF},
                                                                  {0xF900, 0xFAFF},
                                                                  {0x2F800, 0x2FA1F}}};
  return std::ranges::any_of(kBlocks,
                             [c](const auto& block) { return c >= block.first && c <= block.second; });
}

// All signs of ASCII count.
bool splits_off(char32_t c) {
  if (c < 0x80)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return is_punctuation(c);
}

}  // namespace

std::vector<std::string> bert_words(std::string_view text, bool uncased) {
  std::u32string word;
  std::vector<std::string> words;
  const auto finish = [&] {
    if (uncased) {
      std::ranges::transform(word, word.begin(), [](char32_t c) { return lower_case(c); });
      word = decomposed(word);
      std::erase_if(word, is_nonspacing_mark);
    }
    std::string part;
    const auto end_part = [&] {
      if (!part.empty()) words.push_back(std::move(part));
      part.clear();
    };
    for (const char32_t c : word) {
      if (splits_off(c)) end_part();
      append_character(part, c);
      if (splits_off(c)) end_part();
    }
    end_part();
    word.clear();
  };
  while (!text.empty()) {
    const Character next = first_character(text);
    text.remove_prefix(next.bytes);
    const char32_t c = next.value;
    const bool separates = c == '\t' || c == '\n' || c == '\r';
    if (c == 0xFFFD || (is_control(c) && !separates)) continue;
    if (separates || is_space(c)) {
      finish();
    } else if (is_chinese(c)) {
      finish();
      word = c;
      finish();
    } else {
      word += c;
    }
  }
  finish();
  return words;
}

}  // namespace tandem::datasets
