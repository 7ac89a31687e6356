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

// Cuts characters, in order, into words. Places are kept on request.
class WordCutter {
 public:
  WordCutter(bool uncased, bool with_places) : uncased_(uncased), with_places_(with_places) {}

  void add(char32_t c, Range place) {
    word_ += c;
    if (with_places_) places_.push_back(place);
  }
  // After white space and at the end.
  void finish() {
    if (uncased_) remove_case();
    PlacedWord part;
    const auto end_part = [&] {
      if (!part.text.empty()) words_.push_back(std::move(part));
      part = {};
    };
    for (std::size_t i = 0; i < word_.size(); ++i) {
      const bool alone = splits_off(word_[i]);
      if (alone) end_part();
      append_character(part.text, word_[i]);
      if (with_places_) part.places.push_back(places_[i]);
      if (alone) end_part();
    }
    end_part();
    word_.clear();
    places_.clear();
  }
  std::vector<PlacedWord> take() { return std::move(words_); }

 private:
  // Lower case without accents.
  void remove_case() {
    std::ranges::transform(word_, word_.begin(), [](char32_t c) { return lower_case(c); });
    if (with_places_) place_decomposed();
    word_ = decomposed(word_);
    std::erase_if(word_, is_nonspacing_mark);
  }
  // A removed mark belongs to the character before it. The decomposition of a word is that of its characters
  // with marks sorted.
  void place_decomposed() {
    std::vector<Range> kept;
    for (std::size_t i = 0; i < word_.size(); ++i) {
      for (const char32_t c : decomposed(std::u32string_view(word_).substr(i, 1))) {
        if (!is_nonspacing_mark(c)) {
          kept.push_back(places_[i]);
        } else if (!kept.empty()) {
          kept.back().last = places_[i].last;
        }
      }
    }
    places_ = std::move(kept);
  }

  bool uncased_, with_places_;
  std::u32string word_;
  std::vector<Range> places_;
  std::vector<PlacedWord> words_;
};

std::vector<PlacedWord> cut_words(std::string_view text, bool uncased, bool with_places) {
  WordCutter cutter(uncased, with_places);
  for (std::size_t at = 0; at < text.size();) {
    const Character next = first_character(text.substr(at));
    const Range place{at, at + next.bytes};
    at = place.last;
    const char32_t c = next.value;
    const bool separates = c == '\t' || c == '\n' || c == '\r';
    if (c == 0xFFFD || (is_control(c) && !separates)) continue;
    if (separates || is_space(c)) {
      cutter.finish();
    } else if (is_chinese(c)) {
      cutter.finish();
      cutter.add(c, place);
      cutter.finish();
    } else {
      cutter.add(c, place);
    }
  }
  cutter.finish();
  return cutter.take();
}

}  // namespace

std::vector<std::string> bert_words(std::string_view text, bool uncased) {
  std::vector<std::string> words;
  for (PlacedWord& word : cut_words(text, uncased, false)) words.push_back(std::move(word.text));
  return words;
}

std::vector<PlacedWord> placed_bert_words(std::string_view text, bool uncased) {
  return cut_words(text, uncased, true);
}

}  // namespace tandem::datasets
