// Rows of CSV files (RFC 4180).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tandem::files {

// Reads the rows of a text. Fields may be in quotes; separators and line breaks in them are characters, and a
// quote is doubled. A byte order mark is ignored. Lines end with "\n" or "\r\n"; empty lines are skipped.
class CsvReader {
 public:
  // `path`: for messages. `text` must outlive the reader.
  CsvReader(std::string_view text, std::string path, char separator = ',');

  // Returns false at the end. Throws UserError with the line if a quote is not closed, or text follows it.
  bool next(std::vector<std::string>& fields);
  Index line() const { return line_; }  // first line of the last row, from 1

 private:
  std::string field();
  std::string quoted();

  std::string_view rest_;
  std::string path_;
  char separator_;
  Index line_ = 0, next_line_ = 1;
};

}  // namespace tandem::files
