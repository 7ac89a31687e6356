// A table of text in columns.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "files/output.h"

namespace tandem::report {

// Columns on a terminal: characters, not bytes.
inline std::size_t text_width(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

inline std::string padded(const std::string& text, std::size_t to) {
  return text + std::string(to > text_width(text) ? to - text_width(text) : 0, ' ');
}

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  // Columns from this one on are aligned right.
  void right_from(std::size_t column) { right_from_ = column; }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void print() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], text_width(row[i]));
    }
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string gap(widths[i] - text_width(row[i]), ' ');
        line += (i > 0 ? "  " : "") + (i >= right_from_ ? gap + row[i] : row[i] + gap);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      output::print("{}\n", line);
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t right_from_ = 1;
};

}  // namespace tandem::report
