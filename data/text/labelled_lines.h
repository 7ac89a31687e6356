// Labelled texts of one's own: tables, objects of JSON, or a folder for each class.
#pragma once

#include <optional>
#include <string>

#include "data/text/labelled_corpus.h"

namespace tandem::datasets {

struct LabelledLinesOptions {
  std::string train;  // paths, as read_labelled_rows takes them
  std::optional<std::string> test{}, validation{};
  // Of the training texts of every class, at even distances, where there is no such path. 0: none.
  double test_fraction = 0.2, validation_fraction = 0.0;
  std::optional<std::string> label_column{}, text_column{};
  Index max_line = Index{1} << 20;  // bytes

  static const options::Schema& schema();
};

// The classes are the labels of the training texts, sorted by their bytes. Throws UserError as
// read_labelled_rows does, where the training texts have a single label, with the place of a label that they
// have not, and when a share leaves no text to test on.
LabelledCorpus read_labelled_lines(const LabelledLinesOptions& files,
                                   const LabelledCorpusOptions& options = {});
LabelledCorpusRegistry::Entry labelled_lines_entry();

}  // namespace tandem::datasets
