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
  double f1 = 0.0;  // of the words, counted with repetitions
};
// The best over the accepted answers, of which those that are empty when normalised do not count; without
// any, over the empty one. Where one side has no words, F1 is 1 if the other has none either.
AnswerMatch match_answer(std::string_view answer, std::span<const std::string> accepted);

}  // namespace tandem::tasks
