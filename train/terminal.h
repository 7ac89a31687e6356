// Everything that the program prints, apart from the bar of progress, is printed here: whatever users' files
// and names hold reaches a terminal, a pipe or a log as text (core/printable.h).
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "core/printable.h"

namespace tandem::train {

template <class... Args>
void print(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(to, "{}", printable_lines(fmt::format(format, std::forward<Args>(args)...)));
}

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  train::print(stdout, format, std::forward<Args>(args)...);  // not fmt::print
}

// "tandem: …" on stderr, on one line whatever the text holds.
inline void print_error(std::string_view text) { fmt::print(stderr, "tandem: {}\n", printable(text)); }

}  // namespace tandem::train
