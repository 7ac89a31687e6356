// Rows of CSV files (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tandem::files {

// Row after row of a text. Fields may be in quotes, in which separators and line breaks are characters and a
// quote stands twice; a byte order mark is no text; lines end with "\n" or "\r\n", and empty ones are no
// rows.
class CsvReader {
 public:
  // `path`: for messages. `text` outlives the reader.
  CsvReader(std::string_view text, std::string path, char separator = ',');

  // False behind the last one. Throws UserError with the line where a quote is not closed, or something
  // follows one.
  bool next(std::vector<std::string>& fields);
  Index line() const { return line_; }  // the first of the row that came last, from 1

 private:
  std::string field();
  std::string quoted();

  std::string_view rest_;
  std::string path_;
  char separator_;
  Index line_ = 0, next_line_ = 1;
};

}  // namespace tandem::files
