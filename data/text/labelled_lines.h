// Labelled texts from the user's files: tables, JSON objects, or a folder for each class.
#pragma once

#include <optional>
#include <string>

#include "data/text/labelled_corpus.h"

namespace tandem::datasets {

struct LabelledLinesOptions {
  std::string train;  // paths for read_labelled_rows
  std::optional<std::string> test{}, validation{};
  // Shares of each class of the training texts, taken at even distances, if there is no such path. 0: none.
  double test_fraction = 0.2, validation_fraction = 0.0;
  std::optional<std::string> label_column{}, text_column{};
  Index max_line = Index{1} << 20;  // in bytes

  static const options::Schema& schema();
};

// Classes are the labels of the training texts, sorted by bytes. Throws UserError as read_labelled_rows does,
// when the training texts have a single label, for a label outside the training texts, and when a share
// leaves no test text.
LabelledCorpus read_labelled_lines(const LabelledLinesOptions& files,
                                   const LabelledCorpusOptions& options = {});
LabelledCorpusRegistry::Entry labelled_lines_entry();

}  // namespace tandem::datasets
