// Labelled texts of one's own: a line is a label, a tab, and a text.
#pragma once

#include <optional>
#include <string>

#include "data/text/labelled_corpus.h"

namespace tandem::datasets {

struct LabelledLinesOptions {
  std::string train, test;  // paths
  std::optional<std::string> validation{};
  Index max_line = Index{1} << 20;  // bytes

  static const options::Schema& schema();
};

// The classes are the labels of the training file, sorted by their bytes. Throws UserError naming the file
// when it is missing, too large or empty, or the training file has a single label; with the line too where
// one has no tab, no label or no text, is too long, is no UTF-8, or has a label that the training file has
// not.
LabelledCorpus read_labelled_lines(const LabelledLinesOptions& files,
                                   const LabelledCorpusOptions& options = {});
LabelledCorpusFamily::Entry labelled_lines_entry();

}  // namespace tandem::datasets
