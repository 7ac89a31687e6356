#include "data/text/labelled_lines.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/options/check.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "data/text/corpus.h"
#include "data/text/text_lines.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace {

constexpr std::size_t kNamed = 20;  // classes in a message

struct Line {
  std::string_view label, text;
};

std::vector<Line> labelled_lines(std::string_view text, const std::string& path, Index max_line) {
  std::vector<Line> lines;
  for (const std::string_view line : lines_of(text, path, max_line)) {
    const std::string where = fmt::format("{}:{}", path, lines.size() + 1);
    const std::size_t tab = line.find('\t');
    require(tab != std::string_view::npos, where, "has no tab: a line is a label, a tab, and a text");
    const Line parts{line.substr(0, tab), line.substr(tab + 1)};
    require(!parts.label.empty(), where, "has no label before its tab");
    require(parts.text.find_first_not_of(" \t") != std::string_view::npos, where,
            "has no text behind the label \"{}\"", printable(parts.label));
    lines.push_back(parts);
  }
  return lines;
}

std::vector<std::string> classes_of(const std::vector<Line>& lines, const std::string& path) {
  std::vector<std::string> classes;
  for (const Line& line : lines) classes.emplace_back(line.label);
  std::ranges::sort(classes);
  const auto repeated = std::ranges::unique(classes);
  classes.erase(repeated.begin(), repeated.end());
  require(classes.size() > 1, path, "has the one label \"{}\": there is nothing to tell apart",
          printable(classes[0]));
  return classes;
}

std::vector<LabelledText> texts_of(const std::vector<Line>& lines, const std::vector<std::string>& classes,
                                   const std::string& path) {
  std::vector<LabelledText> texts;
  for (const Line& line : lines) {
    const auto found = std::ranges::lower_bound(classes, line.label, std::less<>());
    if (found == classes.end() || *found != line.label) {
      const std::string label(line.label);
      const bool few = classes.size() <= kNamed;
      throw UserError(fmt::format("{}:{}", path, texts.size() + 1),
                      fmt::format("the training file has no label \"{}\"{}{}", printable(label),
                                  few ? fmt::format("; it has {}", fmt::join(classes, ", ")) : "",
                                  did_you_mean(label, classes)));
    }
    texts.push_back({line.text, found - classes.begin()});
  }
  return texts;
}

}  // namespace

const options::Schema& LabelledLinesOptions::schema() {
  static const options::Schema schema =
      options::Describe<LabelledLinesOptions>()
          .key("train", &LabelledLinesOptions::train, "file to learn: lines of a label, a tab, and a text",
               {.required = true})
          .key("test", &LabelledLinesOptions::test, "the same to test on", {.required = true})
          .key("validation", &LabelledLinesOptions::validation,
               "the same to choose on; null: the test file serves")
          .key("max_line", &LabelledLinesOptions::max_line, "bytes that a line may have", {.min = 1});
  return schema;
}

LabelledCorpus read_labelled_lines(const LabelledLinesOptions& files, const LabelledCorpusOptions& options) {
  options::require_sound("labelled_lines", LabelledLinesOptions::schema(), &files);
  // The texts outlive what is cut from them.
  std::string train, validation, test;
  const auto read = [&](std::string& text, const std::string& path) {
    text = files::read_text_of_data(path, kMaxCorpusBytes);
    return labelled_lines(text, path, files.max_line);
  };
  const std::vector<Line> lines = read(train, files.train);
  LabelledParts parts;
  parts.classes = classes_of(lines, files.train);
  parts.train = texts_of(lines, parts.classes, files.train);
  parts.test = texts_of(read(test, files.test), parts.classes, files.test);
  if (files.validation)
    parts.validation = texts_of(read(validation, *files.validation), parts.classes, *files.validation);
  return make_labelled_corpus(parts, options, files.train);
}

LabelledCorpusFamily::Entry labelled_lines_entry() {
  return LabelledCorpusFamily::entry<LabelledLinesOptions>(
      "labelled_lines", "files of lines: a label, a tab, and a text", LabelledLinesOptions::schema(),
      [](const LabelledLinesOptions& files, const LabelledCorpusOptions& options) {
        return read_labelled_lines(files, options);
      });
}

}  // namespace tandem::datasets
