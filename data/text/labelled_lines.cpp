#include "data/text/labelled_lines.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/options/check.h"
#include "core/printable.h"
#include "core/suggest.h"
#include "data/text/labelled_rows.h"

namespace tandem::datasets {

namespace {

constexpr std::size_t kNamed = 20;  // classes in a message

std::vector<std::string> classes_of(const std::vector<LabelledRow>& rows, const std::string& path) {
  std::vector<std::string> classes;
  for (const LabelledRow& row : rows) classes.push_back(row.label);
  std::ranges::sort(classes);
  const auto repeated = std::ranges::unique(classes);
  classes.erase(repeated.begin(), repeated.end());
  require(classes.size() > 1, path, "has only the label \"{}\", expected at least two",
          printable(classes[0]));
  return classes;
}

std::vector<LabelledText> texts_of(const std::vector<LabelledRow>& rows,
                                   const std::vector<std::string>& classes) {
  std::vector<LabelledText> texts;
  for (const LabelledRow& row : rows) {
    const auto found = std::ranges::lower_bound(classes, row.label);
    if (found == classes.end() || *found != row.label) {
      const bool few = classes.size() <= kNamed;
      throw UserError(row.place,
                      fmt::format("the training texts have no label \"{}\"{}{}", printable(row.label),
                                  few ? fmt::format("; they have {}", fmt::join(classes, ", ")) : "",
                                  did_you_mean(row.label, classes)));
    }
    texts.push_back({row.text, found - classes.begin()});
  }
  return texts;
}

// Splits off training texts. `key`: that of the fraction.
std::vector<LabelledText> taken_of_every_class(std::vector<LabelledText>& train, double fraction,
                                               const char* key, const std::string& path) {
  std::vector<LabelledText> taken, left;
  std::map<std::int64_t, Index> seen;
  for (const LabelledText& text : train) {
    const auto before = static_cast<double>(seen[text.label]++);
    const bool takes = std::floor((before + 1.0) * fraction) > std::floor(before * fraction);
    (takes ? taken : left).push_back(text);
  }
  require(fraction == 0.0 || !taken.empty(), path,
          "{} of {} of each class takes none of its {} texts; set a separate file, or a larger share", key,
          fraction, train.size());
  train = std::move(left);
  return taken;
}

// An unrecognised header shows as a class that occurs once.
std::string odd_first_row(const std::vector<LabelledRow>& rows) {
  const LabelledRow& first = rows.front();
  const auto same = std::ranges::count(rows, first.label, &LabelledRow::label);
  if (same > 1 || rows.size() < 10) return "";
  return fmt::format(
      "{}: the label \"{}\" occurs only in this line; if it is a header, name its columns in label_column "
      "and text_column",
      first.place, printable(first.label));
}

}  // namespace

const options::Schema& LabelledLinesOptions::schema() {
  static const options::Schema schema =
      options::Describe<LabelledLinesOptions>()
          .key("train", &LabelledLinesOptions::train,
               "training texts: a table (.csv, or tab-separated), JSON objects (.jsonl), or a folder with a "
               "subfolder of .txt files for each class",
               {.required = true})
          .key("test", &LabelledLinesOptions::test, "test texts; null: split off from the training texts")
          .key("validation", &LabelledLinesOptions::validation,
               "validation texts; null: split off from the training texts, or the test texts")
          .key("test_fraction", &LabelledLinesOptions::test_fraction,
               "share of each class of the training texts kept for testing, if there is no such file",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .key("validation_fraction", &LabelledLinesOptions::validation_fraction,
               "the same for validation; 0: use the test texts", {.min = 0.0, .max = 1.0, .open_max = true})
          .key("label_column", &LabelledLinesOptions::label_column,
               "column or key of labels; null: one of the usual names, such as label")
          .key("text_column", &LabelledLinesOptions::text_column,
               "column or key of texts; null: one of the usual names, such as text")
          .key("max_line", &LabelledLinesOptions::max_line, "largest length of a line in bytes", {.min = 1});
  return schema;
}

LabelledCorpus read_labelled_lines(const LabelledLinesOptions& files, const LabelledCorpusOptions& options) {
  options::require_sound("labelled_lines", LabelledLinesOptions::schema(), &files);
  const LabelledColumns columns{files.label_column, files.text_column, files.max_line};
  // Outlive the views of their texts.
  const LabelledRows train = read_labelled_rows(files.train, columns);
  LabelledRows test, validation;
  if (files.test) test = read_labelled_rows(*files.test, columns);
  if (files.validation) validation = read_labelled_rows(*files.validation, columns);
  LabelledParts parts;
  parts.classes = classes_of(train.rows, files.train);
  parts.train = texts_of(train.rows, parts.classes);
  parts.test = files.test
                   ? texts_of(test.rows, parts.classes)
                   : taken_of_every_class(parts.train, files.test_fraction, "test_fraction", files.train);
  parts.validation = files.validation ? texts_of(validation.rows, parts.classes)
                                      : taken_of_every_class(parts.train, files.validation_fraction,
                                                             "validation_fraction", files.train);
  LabelledCorpus corpus = make_labelled_corpus(parts, options, files.train);
  for (const auto& notes : {train.notes, test.notes, validation.notes})
    std::ranges::copy(notes, std::back_inserter(corpus.notes));
  if (std::string note = odd_first_row(train.rows); !note.empty()) corpus.notes.push_back(std::move(note));
  return corpus;
}

LabelledCorpusRegistry::Entry labelled_lines_entry() {
  return LabelledCorpusRegistry::entry<LabelledLinesOptions>(
      "labelled_lines", "labelled texts: tables, JSON objects, or a folder for each class",
      LabelledLinesOptions::schema(), [](const LabelledLinesOptions& files) {
        return LabelledReader{std::bind_front(read_labelled_lines, files)};
      });
}

}  // namespace tandem::datasets
