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
  const auto read = [&](const TextFileOptions::Paths& paths) {
    std::vector<std::string_view> lines;
    for (const std::string& path : paths.items) {
      for (const std::string& file : files_of(path)) {
        files::require_there(files::kind_of(file) != files::Kind::absent, file, "there is no such file");
        texts.emplace_back(file, kMaxCorpusBytes);
        std::ranges::copy(lines_of(texts.back().text(), file, files.max_line), std::back_inserter(lines));
      }
    }
    return lines;
  };
  require(!files.train.items.empty(), "data.train", "names no file");
  const std::string where = name_of_paths(files.train);
  TextParts parts;
  parts.train = read(files.train);
  const std::size_t all = parts.train.size();
  parts.test = files.test ? read(*files.test)
                          : set_aside(parts.train, all, files.test_fraction, where, "test_fraction", "lines");
  parts.validation = files.validation ? read(*files.validation)
                                      : set_aside(parts.train, all, files.validation_fraction, where,
                                                  "validation_fraction", "lines");
  return make_corpus(parts, options, where);
}

CorpusRegistry::Entry text_file_entry() {
  return CorpusRegistry::entry<TextFileOptions>(
      "text", "plain text, line by line", TextFileOptions::schema(),
      [](const TextFileOptions& files, const CorpusOptions& options) {
        return read_text_files(files, options);
      });
}

}  // namespace tandem::datasets
