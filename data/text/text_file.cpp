#include "data/text/text_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <iterator>

#include "core/error.h"
#include "core/options/check.h"
#include "data/text/holdout.h"
#include "data/text/text_lines.h"
#include "files/input.h"
#include "files/not_there.h"
#include "files/text_view.h"

namespace tandem::datasets {

namespace {

// The first path, and the number of others.
std::string name_of_paths(const TextFileOptions::Paths& paths) {
  const std::size_t others = paths.items.size() - 1;
  return others == 0 ? paths.items.front() : fmt::format("{} and {} more", paths.items.front(), others);
}

struct FileLine {
  std::string_view text;   // without the line end
  std::string_view whole;  // with it
  std::size_t file;        // its number
};

std::vector<std::string_view> line_texts(const std::vector<FileLine>& lines) {
  std::vector<std::string_view> texts;
  texts.reserve(lines.size());
  for (const FileLine& line : lines) texts.push_back(line.text);
  return texts;
}

// Consecutive lines of a file as one text.
std::vector<std::string_view> document_texts(const std::vector<FileLine>& lines) {
  std::vector<std::string_view> texts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == 0 || lines[i].file != lines[i - 1].file) {
      texts.push_back(lines[i].whole);
    } else {
      texts.back() = {texts.back().data(), texts.back().size() + lines[i].whole.size()};
    }
  }
  return texts;
}

// Hidden files are left out.
std::vector<std::string> files_of(const std::string& path) {
  if (files::kind_of(path) != files::Kind::folder) return {path};
  std::vector<std::string> found;
  for (const auto& entry : files::entries_of(path))
    if (entry.path().extension() == ".txt" && !entry.path().filename().string().starts_with('.'))
      found.push_back(entry.path().string());
  require(!found.empty(), path, "is a folder without a .txt file, expected .txt files");
  return found;
}

}  // namespace

const options::Schema& TextFileOptions::schema() {
  static const options::Schema schema =
      options::Describe<TextFileOptions>()
          .key("train", &TextFileOptions::train,
               "training text: a file, or a folder of .txt files; several are concatenated",
               {.required = true})
          .key("validation", &TextFileOptions::validation,
               "validation text; null: split off from the training text")
          .key("test", &TextFileOptions::test, "test text; null: split off from the training text")
          .key("validation_fraction", &TextFileOptions::validation_fraction,
               "share of the training text's lines, before the test lines, if there is no such file",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("test_fraction", &TextFileOptions::test_fraction,
               "share of the training text's lines, the last ones, if there is no such file",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("max_line", &TextFileOptions::max_line, "largest length of a line in bytes", {.min = 1});
  return schema;
}

TextCorpus read_text_files(const TextFileOptions& files, const CorpusOptions& options) {
  options::require_sound("text", TextFileOptions::schema(), &files);
  std::deque<files::TextView> texts;  // views refer to them, so they must not move
  const auto read = [&](const TextFileOptions::Paths& paths, std::string_view key) {
    std::vector<FileLine> lines;
    for (const std::string& path : paths.items) {
      for (const std::string& file : files_of(path)) {
        files::require_there(files::kind_of(file) != files::Kind::absent, key,
                             "{}: there is no such text file, nor a folder of .txt files", file);
        texts.emplace_back(file, kMaxCorpusBytes);
        const std::string_view text = texts.back().text();
        const std::vector<std::string_view> found = lines_of(text, file, files.max_line);
        for (std::size_t i = 0; i < found.size(); ++i) {
          const char* const end = i + 1 < found.size() ? found[i + 1].data() : text.data() + text.size();
          lines.push_back({found[i], {found[i].data(), end}, texts.size()});
        }
      }
    }
    return lines;
  };
  require(!files.train.items.empty(), "data.train", "names no file");
  const std::string where = name_of_paths(files.train);
  std::vector<FileLine> train = read(files.train, "data.train");
  const std::size_t all = train.size();
  const std::vector<FileLine> test =
      files.test ? read(*files.test, "data.test")
                 : set_aside(train, all, files.test_fraction, where, "test_fraction", "lines");
  const std::vector<FileLine> validation =
      files.validation
          ? read(*files.validation, "data.validation")
          : set_aside(train, all, files.validation_fraction, where, "validation_fraction", "lines");
  const auto texts_of = options.keeps_line_ends() ? document_texts : line_texts;
  return make_corpus({texts_of(train), texts_of(validation), texts_of(test)}, options, where);
}

CorpusRegistry::Entry text_file_entry() {
  return CorpusRegistry::entry<TextFileOptions>(
      "text", "plain text, line by line", TextFileOptions::schema(),
      [](const TextFileOptions& files, const CorpusOptions& options) {
        return read_text_files(files, options);
      });
}

}  // namespace tandem::datasets
