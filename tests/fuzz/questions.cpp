// Questions in the format of SQuAD, and their windows.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/text/question_windows.h"
#include "data/text/squad.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

const datasets::TextCodec& codec() {
  static const datasets::TextCodecPtr made = datasets::recall_codec(
      {{"name", "wordpiece"},
       {"lower_case", true},
       {"pieces",
        {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "e", "##e", "t", "##t", "?", "."}}},
      "the target");
  return *made;
}

void expect_windows(const datasets::EncodedQuestions& all) {
  std::vector<datasets::QuestionWindow> windows;
  for (std::size_t q = 0; q < all.questions.size(); ++q) {
    const datasets::Question& question = all.questions[q];
    const std::string& context = all.contexts[question.context];
    for (const std::string& answer : question.answers)
      expect(context.find(answer) != std::string::npos, "an answer is no part of its context");
    windows.clear();
    datasets::add_windows(all, q, {.longest = 16, .max_question = 6, .stride = 3}, windows);
    std::size_t central = 0;
    for (const datasets::QuestionWindow& window : windows) {
      expect(window.length() <= 16 && window.start <= window.end && window.end < window.length(),
             "a window is longer than the model reads, or an answer is beyond it");
      if (window.central.count() == 0) continue;
      expect(window.central.first == central, "a piece is central in no window, or in two");
      central = window.central.last;
    }
    expect(central == all.context_pieces[question.context].ids.size(), "the last pieces are in no window");
  }
}

void run(Bytes input) {
  datasets::Questions read = datasets::read_squad(file_of(input));
  const datasets::EncodedQuestions all = datasets::encode_questions(std::move(read), codec());
  for (std::size_t c = 0; c < all.contexts.size(); ++c) {
    const datasets::PlacedText& pieces = all.context_pieces[c];
    expect(pieces.ids == codec().encode(all.contexts[c]).ids, "pieces with places are others");
    expect(pieces.ids.size() == pieces.places.size(), "a piece has no place");
    for (const Range place : pieces.places)
      expect(place.first < place.last && place.last <= all.contexts[c].size(), "a place is not in the text");
    expect(std::ranges::is_sorted(pieces.places, {}, &Range::first) &&
               std::ranges::is_sorted(pieces.places, {}, &Range::last),
           "places are not in order");
  }
  expect_windows(all);
}

}  // namespace

TANDEM_FUZZ_TARGET("questions", run)

}  // namespace tandem::fuzz
