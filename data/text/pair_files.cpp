#include "data/text/pair_files.h"

#include <fmt/core.h>

#include "core/error.h"
#include "core/options/check.h"
#include "data/text/corpus.h"
#include "data/text/holdout.h"
#include "data/text/text_lines.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace {

bool blank(std::string_view text) { return text.find_first_not_of(" \t") == std::string_view::npos; }

std::string place(const std::string& path, std::size_t line) { return fmt::format("{}:{}", path, line + 1); }

std::vector<TextPair> read_table(const std::string& path, Index max_line) {
  const std::string text = files::read_text_of_data(path, kMaxCorpusBytes);
  std::vector<TextPair> pairs;
  for (std::string_view line : lines_of(text, path, max_line)) {
    std::vector<std::string> columns;
    for (std::size_t end = 0; end != std::string_view::npos;) {
      end = line.find('\t');
      columns.emplace_back(line.substr(0, end));
      if (end != std::string_view::npos) line.remove_prefix(end + 1);
    }
    require(columns.size() >= 2, place(path, pairs.size()),
            "has one column, expected a source and a target with a tab between them");
    for (std::size_t i = 0; i < columns.size(); ++i)
      require(!blank(columns[i]), place(path, pairs.size()),
              "column {} of {} is empty; complete or remove the line", i + 1, columns.size());
    pairs.push_back({std::move(columns[0]), {columns.begin() + 1, columns.end()}});
  }
  return pairs;
}

std::vector<TextPair> read_two(const std::string& source, const std::string& target, Index max_line) {
  const std::string sources = files::read_text_of_data(source, kMaxCorpusBytes),
                    targets = files::read_text_of_data(target, kMaxCorpusBytes);
  const std::vector<std::string_view> from = lines_of(sources, source, max_line),
                                      to = lines_of(targets, target, max_line);
  require(from.size() == to.size(), source,
          "has {} lines and {} has {}; line i of one must belong to line i of the other", from.size(), target,
          to.size());
  std::vector<TextPair> pairs;
  for (std::size_t i = 0; i < from.size(); ++i) {
    require(!blank(from[i]) && !blank(to[i]), place(blank(from[i]) ? source : target, i),
            "is empty; complete the pair or remove the line from both files");
    pairs.push_back({std::string(from[i]), {std::string(to[i])}});
  }
  return pairs;
}

std::vector<TextPair> read(const PairPaths& paths, Index max_line) {
  return paths.table ? read_table(*paths.table, max_line) : read_two(*paths.source, *paths.target, max_line);
}

}  // namespace

const options::Schema& PairPaths::schema() {
  static const options::Schema schema =
      options::Describe<PairPaths>()
          .key("table", &PairPaths::table,
               "file of pairs, one per line: source, tab, target, and optionally more tabs and targets that "
               "are right as well")
          .key("source", &PairPaths::source, "file of sources, one per line")
          .key("target", &PairPaths::target, "file of targets, one per line, in the order of the sources")
          .rule("table", "or source and target must be given, not both",
                [](const PairPaths& o) {
                  return o.table ? !o.source && !o.target : o.source.has_value() && o.target.has_value();
                })
          .short_key("table");
  return schema;
}

const options::Schema& PairFileOptions::schema() {
  static const options::Schema schema =
      options::Describe<PairFileOptions>()
          .key("train", &PairFileOptions::train, "files of training pairs", {.required = true})
          .key("validation", &PairFileOptions::validation,
               "files of validation pairs; null: split off from the training pairs")
          .key("test", &PairFileOptions::test, "files of test pairs; null: split off from the training pairs")
          .key("validation_fraction", &PairFileOptions::validation_fraction,
               "share of the training pairs, before the test pairs, if there are no such files",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("test_fraction", &PairFileOptions::test_fraction,
               "share of the training pairs, the last ones, if there are no such files",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("max_line", &PairFileOptions::max_line, "largest length of a line in bytes", {.min = 1});
  return schema;
}

PairTexts read_pair_files(const PairFileOptions& options) {
  options::require_sound("text_pairs", PairFileOptions::schema(), &options);
  PairTexts texts;
  texts.where = options.train.table ? *options.train.table : *options.train.source;
  texts.train = read(options.train, options.max_line);
  const std::size_t all = texts.train.size();
  texts.test = options.test ? read(*options.test, options.max_line)
                            : set_aside(texts.train, all, options.test_fraction, texts.where, "test_fraction",
                                        "pairs");
  texts.validation = options.validation ? read(*options.validation, options.max_line)
                                        : set_aside(texts.train, all, options.validation_fraction,
                                                    texts.where, "validation_fraction", "pairs");
  return texts;
}

PairCorpusRegistry::Entry pair_files_entry() {
  return PairCorpusRegistry::entry<PairFileOptions>(
      "text_pairs", "pairs of lines from files: sources and targets", PairFileOptions::schema(),
      [](const PairFileOptions& options) { return PairReader{std::bind_front(read_pair_files, options)}; });
}

}  // namespace tandem::datasets
