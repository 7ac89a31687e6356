#include "data/text/text_lines.h"

#include <fmt/core.h>

#include "core/error.h"
#include "data/text/tokenizer.h"
#include "files/byte_order_mark.h"
#include "files/input.h"

namespace tandem::datasets {

std::vector<std::string_view> lines_of(std::string_view text, const std::string& path, Index max_line) {
  std::vector<std::string_view> lines;
  files::each_line(files::without_byte_order_mark(text), [&](std::string_view line, bool) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string where = fmt::format("{}:{}", path, lines.size() + 1);
    require(static_cast<Index>(line.size()) <= max_line, where,
            "a line of {} bytes, at most {} are allowed (max_line); break it into sentences", line.size(),
            max_line);
    require_utf8(line, where);
    lines.push_back(line);
  });
  require(!lines.empty(), path, "is empty");
  return lines;
}

}  // namespace tandem::datasets
