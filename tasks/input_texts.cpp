#include "tasks/input_texts.h"

#include <filesystem>

#include "core/shape.h"
#include "data/text/corpus.h"
#include "data/text/text_lines.h"
#include "files/input.h"

namespace tandem::tasks {

namespace {

constexpr Index kMaxLine = Index{1} << 20;  // bytes

}  // namespace

std::vector<std::string> texts_of(const std::vector<std::string>& inputs) {
  std::vector<std::string> texts;
  for (const std::string& input : inputs) {
    std::error_code none;  // a text may be too long for a path
    if (!std::filesystem::exists(std::filesystem::path(input), none)) {
      datasets::require_utf8(input, "predict");
      texts.push_back(input);
      continue;
    }
    const std::string contents = files::read_text(input, datasets::kMaxCorpusBytes);
    for (const std::string_view line : datasets::lines_of(contents, input, kMaxLine))
      texts.emplace_back(line);
  }
  return texts;
}

}  // namespace tandem::tasks
