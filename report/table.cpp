#include "report/table.h"

#include <span>
#include <sstream>

namespace tandem::report {

namespace {

using Cells = std::vector<std::string>;

// "| a | b |" → {"a", "b"}; empty for other lines.
Cells cells_of(const std::string& line) {
  Cells cells;
  if (line.size() < 2 || line.front() != '|' || line.back() != '|') return cells;
  std::istringstream rest(line.substr(1));
  for (std::string cell; std::getline(rest, cell, '|');) {
    const std::size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

bool is_rule(const Cells& cells) {
  return std::ranges::all_of(cells, [](const std::string& cell) {
    return !cell.empty() && cell.find_first_not_of("-:") == cell.npos;
  });
}

std::string aligned(std::span<const Cells> rows) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      if (!is_rule(row)) widths[i] = std::max(widths[i], text_width(row[i]));
  }
  std::string text;
  for (const Cells& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += is_rule(row) ? "|" + std::string(widths[i] + 2, '-') : "| " + padded(row[i], widths[i]) + " ";
    text += "|\n";
  }
  return text;
}

}  // namespace

std::string with_aligned_tables(const std::string& markdown) {
  std::string text;
  std::vector<Cells> rows;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (Cells cells = cells_of(line); !cells.empty()) {
      rows.push_back(std::move(cells));
      continue;
    }
    text += aligned(rows) + line + "\n";
    rows.clear();
  }
  return text + aligned(rows);
}

}  // namespace tandem::report
