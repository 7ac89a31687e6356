// Pairs from files of the user's: two files whose lines belong together, or one with columns.
#pragma once

#include "data/text/pair_corpus.h"
#include "data/text/pair_registry.h"

namespace tandem::datasets {

// `table`, or `source` and `target`.
struct PairPaths {
  // Columns between tabs: the source, what it becomes, and perhaps more that is right as well.
  std::optional<std::string> table{};
  std::optional<std::string> source{}, target{};  // line i of one belongs to line i of the other
  static const options::Schema& schema();
};

struct PairFileOptions {
  PairPaths train;
  std::optional<PairPaths> validation{}, test{};
  // Where there are no such files: the share of the training pairs that is set aside, at their end, in one
  // piece, those for testing last. 0: none.
  double validation_fraction = 0.05, test_fraction = 0.05;
  Index max_line = Index{1} << 20;  // bytes

  static const options::Schema& schema();
};

// Lines end with "\n" or "\r\n"; a byte order mark is no text. Throws UserError naming the file when it is
// missing, too large or empty, or two files have different numbers of lines; with the line, too, where one is
// too long, no UTF-8, or lacks a side; and when a share leaves a part without a pair.
PairTexts read_pair_files(const PairFileOptions& options);
PairCorpusRegistry::Entry pair_files_entry();

}  // namespace tandem::datasets
