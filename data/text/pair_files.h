// Pairs from the user's files: two files of corresponding lines, or one with columns.
#pragma once

#include "data/text/pair_corpus.h"
#include "data/text/pair_registry.h"

namespace tandem::datasets {

// `table`, or `source` and `target`.
struct PairPaths {
  // Tab-separated columns: the source, the target, and optionally more correct targets.
  std::optional<std::string> table{};
  std::optional<std::string> source{}, target{};  // lines of equal number correspond
  static const options::Schema& schema();
};

struct PairFileOptions {
  PairPaths train;
  std::optional<PairPaths> validation{}, test{};
  // Shares of the training pairs, if there are no such files: contiguous, at the end, test pairs last. 0:
  // none.
  double validation_fraction = 0.05, test_fraction = 0.05;
  Index max_line = Index{1} << 20;  // in bytes

  static const options::Schema& schema();
};

// Lines end with "\n" or "\r\n"; a byte order mark is skipped. Throws UserError that names the file when it
// is missing, too large or empty, or two files differ in their number of lines; with the line, when one is
// too long, no UTF-8, or lacks a side; and when a share leaves a part empty.
PairTexts read_pair_files(const PairFileOptions& options);
PairCorpusRegistry::Entry pair_files_entry();

}  // namespace tandem::datasets
