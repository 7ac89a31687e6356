// Made by orientation.py; see there.
#pragma once

namespace golden {

struct Orientation {
  int orientation, rows, columns;
  int pixels[6];
};

// Pillow 13.0.0.
// clang-format off
inline constexpr Orientation kOrientations[] = {
    {1, 2, 3, {0, 40, 80, 120, 160, 200}},
    {2, 2, 3, {80, 40, 0, 200, 160, 120}},
    {3, 2, 3, {200, 160, 120, 80, 40, 0}},
    {4, 2, 3, {120, 160, 200, 0, 40, 80}},
    {5, 3, 2, {0, 120, 40, 160, 80, 200}},
    {6, 3, 2, {120, 0, 160, 40, 200, 80}},
    {7, 3, 2, {200, 80, 160, 40, 120, 0}},
    {8, 3, 2, {80, 200, 40, 160, 0, 120}},
};
// clang-format on

}  // namespace golden
