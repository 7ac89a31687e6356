// A table of text in columns.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/text_width.h"
#include "files/output.h"

namespace tandem::report {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  // Columns from this one on are right-aligned.
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

// The text with aligned columns in its Markdown tables.
std::string with_aligned_tables(const std::string& markdown);

}  // namespace tandem::report
