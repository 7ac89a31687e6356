// The lines of a text that somebody wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

// Lines end with "\n" or "\r\n"; a byte order mark is no text. Throws UserError naming `path` where there is
// none, with the line too where one has more than `max_line` bytes or is no UTF-8. `text` outlives what is
// returned.
std::vector<std::string_view> lines_of(std::string_view text, const std::string& path, Index max_line);

}  // namespace tandem::datasets
