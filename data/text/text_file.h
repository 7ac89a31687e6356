// Plain text as a corpus: a line is followed by "<end>".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/text/corpus.h"

namespace tandem::datasets {

struct TextFileOptions {
  std::string train;  // paths of a file, or of a folder, whose .txt files stand for it, in the order of names
  std::optional<std::string> validation{}, test{};
  // Where there is no file: the share of the training file's lines that is set aside, at its end, in one
  // piece, the test lines last. 0: none.
  double validation_fraction = 0.05, test_fraction = 0.05;
  Index max_line = Index{1} << 20;  // bytes

  static const options::Schema& schema();
};

// Lines end with "\n" or "\r\n"; a byte order mark is no text. Throws UserError naming the file when it is
// missing, too large or empty, with the line too where one is too long or no UTF-8, and when a share leaves a
// part without a line.
TextCorpus read_text_files(const TextFileOptions& files, const CorpusOptions& options = {});
CorpusFamily::Entry text_file_entry();

}  // namespace tandem::datasets
