#include "core/algorithms.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "core/error.h"

namespace tandem {

namespace {

constexpr std::string_view kTitle = "plans chosen by ", kOn = " on ", kUnit = " ms";

[[noreturn]] void fail_table(std::string_view rule, std::string_view line) {
  throw UserError("algorithms", fmt::format("{}, got \"{}\"", rule, line));
}

// "f32 0.31 ms, rounded 0.2 ms"
std::string times_text(const AlgorithmTable::Choice& choice) {
  std::string text;
  for (const auto& [name, milliseconds] : choice.milliseconds)
    text += fmt::format("{}{} {:.4g}{}", text.empty() ? "" : ", ", name, milliseconds, kUnit);
  return text;
}

void read_times(std::string_view text, std::string_view line, AlgorithmTable::Choice& choice) {
  while (!text.empty()) {
    const std::string_view each = text.substr(0, text.find(", "));
    text.remove_prefix(std::min(text.size(), each.size() + 2));
    const std::size_t space = each.find(' ');
    char* end = nullptr;
    const std::string number(space < each.size() ? each.substr(space + 1) : "");
    const float milliseconds = std::strtof(number.c_str(), &end);
    if (end == number.c_str() || end != kUnit)
      fail_table("times must be \"NAME NUMBER ms\", separated by commas", line);
    choice.milliseconds.emplace_back(each.substr(0, space), milliseconds);
  }
}

AlgorithmTable::Choice read_choice(std::string_view text, std::string_view line) {
  const std::size_t tab = text.find('\t');
  AlgorithmTable::Choice choice;
  choice.name = text.substr(0, tab);
  if (tab != std::string_view::npos) read_times(text.substr(tab + 1), line, choice);
  return choice;
}

// Lower-case letters, digits and points; hyphens replace everything else.
std::string file_word(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const bool digit = (c >= '0' && c <= '9') || c == '.';
    if (digit || (c >= 'a' && c <= 'z')) {
      word += c;
    } else if (c >= 'A' && c <= 'Z') {
      word += static_cast<char>(c - 'A' + 'a');
    } else if (!word.empty() && word.back() != '-') {
      word += '-';
    }
  }
  return word;
}

}  // namespace

std::string maker_of(const AlgorithmTable& table) {
  return fmt::format("{}{}{}", table.library, kOn, table.device);
}

std::string file_prefix_of(const AlgorithmTable& table) {
  constexpr std::string_view kVendor = "NVIDIA ";
  std::string_view name = std::string_view(table.device).substr(0, table.device.find(','));
  if (name.starts_with(kVendor)) name.remove_prefix(kVendor.size());
  return file_word(name) + "-";
}

std::string file_name_of(const AlgorithmTable& table) {
  const std::string_view version = std::string_view(table.library).substr(table.library.rfind(' ') + 1);
  return file_prefix_of(table) + file_word(version) + ".txt";
}

std::string to_text(const AlgorithmTable& table) {
  std::string text = fmt::format("{}{}\n", kTitle, maker_of(table));
  for (const auto& [what, choice] : table.choices) {
    text += fmt::format("{}\t{}", what, choice.name);
    if (!choice.milliseconds.empty()) text += "\t" + times_text(choice);
    text += '\n';
  }
  return text;
}

AlgorithmTable read_algorithms(const std::string& text) {
  std::istringstream in(text);
  AlgorithmTable table;
  std::string line;
  const bool titled = std::getline(in, line) && line.starts_with(kTitle);
  const std::size_t on = titled ? line.find(kOn, kTitle.size()) : std::string::npos;
  if (on == std::string::npos)
    fail_table(fmt::format("the table must start with \"{}LIBRARY{}DEVICE\"", kTitle, kOn), line);
  table.library = line.substr(kTitle.size(), on - kTitle.size());
  table.device = line.substr(on + kOn.size());
  while (std::getline(in, line)) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) fail_table("a line must be a shape, a tab and an algorithm", line);
    table.choices[line.substr(0, tab)] = read_choice(std::string_view(line).substr(tab + 1), line);
  }
  return table;
}

}  // namespace tandem
