#include "data/text/text_file.h"

#include "core/error.h"
#include "core/options/check.h"
#include "data/text/set_aside.h"
#include "data/text/text_lines.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

const options::Schema& TextFileOptions::schema() {
  static const options::Schema schema =
      options::Describe<TextFileOptions>()
          .key("train", &TextFileOptions::train, "file of text to learn", {.required = true})
          .key("validation", &TextFileOptions::validation,
               "file of text to choose on; null: lines of the training file")
          .key("test", &TextFileOptions::test, "file of text to test on; null: lines of the training file")
          .key("validation_fraction", &TextFileOptions::validation_fraction,
               "share of the training file's lines, before those for testing, where there is no such file",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("test_fraction", &TextFileOptions::test_fraction,
               "share of the training file's lines, the last ones, where there is no such file",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("max_line", &TextFileOptions::max_line, "bytes that a line may have", {.min = 1});
  return schema;
}

TextCorpus read_text_files(const TextFileOptions& files, const CorpusOptions& options) {
  options::require_sound("text", TextFileOptions::schema(), &files);
  // The texts outlive what is cut from them.
  std::string train, validation, test;
  const auto read = [&](std::string& text, const std::string& path) {
    text = files::read_text_of_data(path, kMaxCorpusBytes);
    return lines_of(text, path, files.max_line);
  };
  TextParts parts;
  parts.train = read(train, files.train);
  const std::size_t all = parts.train.size();
  parts.test = files.test
                   ? read(test, *files.test)
                   : set_aside(parts.train, all, files.test_fraction, files.train, "test_fraction", "lines");
  parts.validation = files.validation ? read(validation, *files.validation)
                                      : set_aside(parts.train, all, files.validation_fraction, files.train,
                                                  "validation_fraction", "lines");
  return make_corpus(parts, options, files.train);
}

CorpusFamily::Entry text_file_entry() {
  return CorpusFamily::entry<TextFileOptions>("text", "plain text, a line after the other",
                                              TextFileOptions::schema(),
                                              [](const TextFileOptions& files, const CorpusOptions& options) {
                                                return read_text_files(files, options);
                                              });
}

}  // namespace tandem::datasets
