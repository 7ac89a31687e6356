// Corpora of labelled texts by name: "labelled_lines" (data/text/labelled_lines.h), and those that were
// added.
#pragma once

#include "data/text/labelled_corpus.h"

namespace tandem::datasets {

// One must be named.
LabelledCorpusRegistry& labelled_corpora();

// What a configuration says about one.
struct LabelledTextOptions {
  options::Choice<labelled_corpora> corpus;
  LabelledCorpusOptions common;
  static const options::Schema& schema();
};

// Throws UserError: missing files, and whatever is wrong with the files.
LabelledCorpus open_labelled_corpus(const LabelledTextOptions& options);
// The classes where they are known without reading; else none.
std::vector<std::string> known_classes(const LabelledTextOptions& options);

}  // namespace tandem::datasets
