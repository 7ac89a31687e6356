// Agreement of an answer with the accepted ones, as in the official evaluation of SQuAD 1.1 and 2.0.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem::tasks {

// In lower case, without ASCII punctuation and the words a, an and the, with single spaces.
std::string normalised_answer(std::string_view text);

struct AnswerMatch {
  bool exact = false;
  double f1 = 0.0;  // of the words, with repetitions
};
// Best match over the accepted answers. Those that are empty when normalised are ignored; if no other is
// left, the empty answer is the accepted one. If a side has no words, F1 is 1 if the other has none either,
// else 0.
AnswerMatch match_answer(std::string_view answer, std::span<const std::string> accepted);

}  // namespace tandem::tasks
