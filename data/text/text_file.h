// Plain text as a corpus: a line is followed by "<end>".
#pragma once

#include <optional>
#include <string>

#include "core/options/one_or_more.h"
#include "data/text/corpus.h"

namespace tandem::datasets {

struct TextFileOptions {
  // Files one after the other; for a folder stand its .txt files, in the order of names.
  using Paths = options::OneOrMore<std::string>;
  Paths train;
  std::optional<Paths> validation{}, test{};
  // Where there is no file: the share of the training files' lines that is set aside, at their end, in one
  // piece, the test lines last. 0: none.
  double validation_fraction = 0.05, test_fraction = 0.05;
  Index max_line = Index{1} << 20;  // bytes

  static const options::Schema& schema();
};

// Lines end with "\n" or "\r\n"; a byte order mark is no text. Throws UserError naming the file when it is
// missing, too large or empty, with the line too where one is too long or no UTF-8, and when a share leaves a
// part without a line.
TextCorpus read_text_files(const TextFileOptions& files, const CorpusOptions& options = {});
CorpusRegistry::Entry text_file_entry();

}  // namespace tandem::datasets
