#include "tasks/question_answering/answer_match.h"

#include <algorithm>
#include <vector>

#include "data/text/unicode.h"

namespace tandem::tasks {

namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Python's str.split() and \w, the underscore aside.
bool separates_words(char32_t c) { return datasets::is_white_space(c) || (c >= 0x1c && c <= 0x1f); }
bool is_word_character(char32_t c) { return datasets::is_letter(c) || datasets::is_number(c); }

std::vector<std::string> words_of_answer(std::string_view text) {
  std::vector<std::string> words;
  std::string word, run;  // a run of word characters in a word
  const auto end_run = [&] {
    if (run == "a" || run == "an" || run == "the") {
      if (!word.empty()) words.push_back(std::move(word));  // an article is a space
      word.clear();
    } else {
      word += run;
    }
    run.clear();
  };
  const auto end_word = [&] {
    end_run();
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  while (!text.empty()) {
    const datasets::Character next = datasets::first_character(text);
    text.remove_prefix(next.bytes);
    const char32_t c = datasets::lower_case(next.value);
    if (is_ascii_punctuation(c)) continue;
    if (separates_words(c)) {
      end_word();
    } else if (is_word_character(c)) {
      datasets::append_character(run, c);
    } else {
      end_run();
      datasets::append_character(word, c);
    }
  }
  end_word();
  return words;
}

AnswerMatch match_words(std::vector<std::string> a, std::vector<std::string> b) {
  AnswerMatch match{.exact = a == b};
  if (a.empty() || b.empty()) return {match.exact, match.exact ? 1.0 : 0.0};
  std::ranges::sort(a);
  std::ranges::sort(b);
  std::vector<std::string> same;
  std::ranges::set_intersection(a, b, std::back_inserter(same));
  if (same.empty()) return match;
  const auto count = static_cast<double>(same.size());
  const double precision = count / static_cast<double>(a.size()),
               recall = count / static_cast<double>(b.size());
  match.f1 = 2.0 * precision * recall / (precision + recall);
  return match;
}

}  // namespace

std::string normalised_answer(std::string_view text) {
  std::string normalised;
  for (const std::string& word : words_of_answer(text)) normalised += (normalised.empty() ? "" : " ") + word;
  return normalised;
}

AnswerMatch match_answer(std::string_view answer, std::span<const std::string> accepted) {
  const std::vector<std::string> words = words_of_answer(answer);
  AnswerMatch best;
  bool any = false;
  const auto take = [&](const std::vector<std::string>& other) {
    const AnswerMatch match = match_words(words, other);
    best = {best.exact || match.exact, std::max(best.f1, match.f1)};
    any = true;
  };
  for (const std::string& one : accepted)
    if (const auto other = words_of_answer(one); !other.empty()) take(other);
  if (!any) take({});
  return best;
}

}  // namespace tandem::tasks
