// Plain text as a corpus; "<end>" follows each line. For a codec that keeps line ends, a file's part of a
// split is one document, whose bytes are unchanged.
#pragma once

#include <optional>
#include <string>

#include "core/options/one_or_more.h"
#include "data/text/corpus.h"

namespace tandem::datasets {

struct TextFileOptions {
  // Files in order; a folder stands for its .txt files, sorted by name.
  using Paths = options::OneOrMore<std::string>;
  Paths train;
  std::optional<Paths> validation{}, test{};
  // Shares of the training lines, if there is no such file: contiguous, at the end, test lines last. 0: none.
  double validation_fraction = 0.05, test_fraction = 0.05;
  Index max_line = Index{1} << 20;  // in bytes

  static const options::Schema& schema();
};

// Lines end with "\n" or "\r\n"; a byte order mark is skipped. Throws UserError that names the file when it
// is missing, too large or empty; with the line, when one is too long or no UTF-8; and when a share leaves a
// part empty.
TextCorpus read_text_files(const TextFileOptions& files, const CorpusOptions& options = {});
CorpusRegistry::Entry text_file_entry();

}  // namespace tandem::datasets
