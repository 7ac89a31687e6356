// A header of the user's own, called as one of Tandem's is: neither gets in the other's way.
#pragma once

namespace consumer {

inline constexpr int kNoError = 0;

}  // namespace consumer
