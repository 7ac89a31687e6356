// Shortest decimals for files.
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace tandem::datasets {

// The number near `guess` with the fewest decimal digits for which `holds` is true; `guess` if there is none
// with at most 17 digits. A difference is thus written without rounding noise: width 38.65 of a box from
// 473.07 to 511.72, not 38.65000000000003.
template <class Holds>
double shortest_decimal(double guess, const Holds& holds) {
  for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    const double rounded = std::strtod(fmt::format("{:.{}g}", guess, digits).c_str(), nullptr);
    if (holds(rounded)) return rounded;
  }
  for (const double towards : {HUGE_VAL, -HUGE_VAL})
    if (const double next = std::nextafter(guess, towards); holds(next)) return next;
  return guess;
}

}  // namespace tandem::datasets
