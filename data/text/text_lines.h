// Lines of a text file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

// Views of the lines in `text`, which end with "\n" or "\r\n"; a byte order mark is skipped. Throws UserError
// that names `path` when there is no line; with the line, when one exceeds `max_line` bytes or is no UTF-8.
std::vector<std::string_view> lines_of(std::string_view text, const std::string& path, Index max_line);

}  // namespace tandem::datasets
