#include "tasks/input_texts.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string_view>

#include "core/error.h"
#include "core/printable.h"
#include "data/text/corpus.h"
#include "data/text/text_lines.h"
#include "files/input.h"

namespace tandem::tasks {

namespace {

namespace fs = std::filesystem;

constexpr Index kMaxLine = Index{1} << 20;  // bytes
constexpr std::array<std::string_view, 18> kExtensions{".txt",    ".text", ".tsv", ".csv", ".json", ".jsonl",
                                                       ".ndjson", ".md",   ".log", ".xml", ".html", ".gz",
                                                       ".zip",    ".npy",  ".npz", ".png", ".jpg",  ".jpeg"};

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

bool names_file(const std::string& input) {
  std::error_code none;  // ignored: a text may be too long for a path
  return fs::exists(fs::path(input), none);
}

void add_lines(std::string_view contents, const std::string& where, std::vector<std::string>& texts) {
  for (const std::string_view line : datasets::lines_of(contents, where, kMaxLine))
    texts.emplace_back(blank(line) ? std::string_view() : line);
}

}  // namespace

std::string standard_input() {
  std::string contents{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  require(contents.size() <= datasets::kMaxCorpusBytes, "",
          "predict: standard input has {} bytes, at most {} are taken", contents.size(),
          datasets::kMaxCorpusBytes);
  return contents;
}

bool looks_like_path(const std::string& input) {
  if (input.find_first_of(" \t\r\n") != std::string::npos) return false;
  const fs::path path(input);
  const std::string extension = path.extension().string();
  if (std::ranges::find(kExtensions, extension) != kExtensions.end()) return true;
  if (input.find('/') == std::string::npos) return false;
  std::error_code none;
  return path.is_absolute() || input.starts_with("./") || input.starts_with("../") ||
         input.starts_with("~/") || fs::is_directory(path.parent_path(), none);
}

std::vector<std::string> texts_of(const std::vector<std::string>& inputs, bool whole) {
  std::vector<std::string> texts;
  const auto add = [&](const std::string& contents, const std::string& where) {
    if (!whole) return add_lines(contents, where, texts);
    datasets::require_utf8(contents, where);
    require(!blank(contents), where, "has no text");
    texts.push_back(contents);
  };
  for (const std::string& input : inputs) {
    if (input == "-") {
      add(standard_input(), "standard input");
    } else if (names_file(input)) {
      add(files::read_text(input, datasets::kMaxCorpusBytes), input);
    } else {
      require(!blank(input), "", "predict: an input is empty; pass a text, a file {}, or -",
              whole ? "with a text" : "with a text in each line");
      require(!looks_like_path(input), "",
              "predict: {}: there is no such file; pass a text that looks like a path in a file, or by "
              "standard input: echo TEXT | tandem predict RUN -",
              printable(input));
      datasets::require_utf8(input, "predict");
      texts.push_back(input);
    }
  }
  return texts;
}

}  // namespace tandem::tasks
