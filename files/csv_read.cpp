#include "files/csv_read.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "files/byte_order_mark.h"

namespace tandem::files {

CsvReader::CsvReader(std::string_view text, std::string path, char separator)
    : rest_(without_byte_order_mark(text)), path_(std::move(path)), separator_(separator) {}

bool CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (!rest_.empty() && (rest_[0] == '\n' || rest_.starts_with("\r\n"))) {
    rest_.remove_prefix(rest_[0] == '\n' ? 1 : 2);
    ++next_line_;
  }
  if (rest_.empty()) return false;
  line_ = next_line_;
  for (;;) {
    fields.push_back(rest_.starts_with('"') ? quoted() : field());
    if (rest_.empty()) return true;
    const char end = rest_[0];
    rest_.remove_prefix(1);
    if (end == separator_) continue;
    if (end == '\r') rest_.remove_prefix(1);
    ++next_line_;
    return true;
  }
}

std::string CsvReader::field() {
  std::size_t end = 0;
  while (end < rest_.size() && rest_[end] != separator_ && rest_[end] != '\n') ++end;
  // The rest starts with the separator, "\n" or "\r\n".
  if (end > 0 && end < rest_.size() && rest_[end] == '\n' && rest_[end - 1] == '\r') --end;
  std::string field(rest_.substr(0, end));
  rest_.remove_prefix(end);
  return field;
}

std::string CsvReader::quoted() {
  std::string field;
  rest_.remove_prefix(1);
  for (;;) {
    const std::size_t end = rest_.find('"');
    require(end != std::string_view::npos, fmt::format("{}:{}", path_, line_),
            "the quote is not closed by the end of the file");
    field += rest_.substr(0, end);
    next_line_ += std::ranges::count(rest_.substr(0, end), '\n');
    rest_.remove_prefix(end + 1);
    if (!rest_.starts_with('"')) break;
    field += '"';
    rest_.remove_prefix(1);
  }
  require(rest_.empty() || rest_[0] == separator_ || rest_[0] == '\n' || rest_.starts_with("\r\n"),
          fmt::format("{}:{}", path_, line_),
          "text follows a field in quotes; a quote within such a field must be doubled");
  return field;
}

}  // namespace tandem::files
