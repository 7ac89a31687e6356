// A user's header with the name of one of Tandem's: neither hides the other.
#pragma once

namespace consumer {

inline constexpr int kNoError = 0;

}  // namespace consumer
