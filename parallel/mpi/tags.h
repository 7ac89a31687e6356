// Tags of messages between two ranks; MPI's collectives need none.
#pragma once

namespace tandem::parallel {

inline constexpr int kDataTag = 1;
inline constexpr int kQuestionTag = 2;
inline constexpr int kAnswerTag = 3;

}  // namespace tandem::parallel
