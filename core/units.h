// Quantities in human-readable form.
#pragma once

#include <string>

namespace tandem {

// "3.2 s", "1:05", "2:03:04"
std::string duration_text(double seconds);
// "1.2k", "3.45M"
std::string count_text(double count);
// "12.3 MiB"
std::string bytes_text(double bytes);
// "0.2210" with four decimals; NaN of either sign is "nan".
std::string decimal_text(double value, int decimals);
// "0.000356" with three significant digits; "–" for a non-finite value.
std::string figure_text(double value, int digits);

}  // namespace tandem
