// Made by frechet.py; see there.
#pragma once

namespace golden {

struct FrechetCase {
  const char* name;
  int rows1, rows2, features;
  float factor, shift;  // of the second set
  float origin;         // of both
  double distance;
};

// SciPy 1.17.1, NumPy 2.4.6.
// clang-format off
inline constexpr FrechetCase kFrechetCases[] = {
    {"alike", 500, 400, 8, 1.0f, 0.0f, 0.0f, 0.0072762762931191105},
    {"moved", 60, 50, 6, 1.0f, 0.5f, 0.0f, 1.3015951490253346},
    {"wider", 300, 300, 16, 4.0f, -1.0f, 0.0f, 25.78830747386626},
    {"far from the origin", 64, 64, 5, 1.0f, 0.0f, 10000.0f, 0.04881211379644812},
    {"fewer rows than features", 9, 7, 24, 2.0f, 0.25f, 0.0f, 9.17675919223363},
    {"one row", 1, 40, 3, 1.0f, 0.0f, 0.0f, 0.7764351892103448},
};
// clang-format on

// Between (0, 0), [[1, .5], [.5, 2]] and (1, -1), diag(2, 1).
inline constexpr double kFrechetOfTwo = 2.4352331992170795;

}  // namespace golden
