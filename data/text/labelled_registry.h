// Registry of corpora of labelled texts: "labelled_lines" (data/text/labelled_lines.h), and those of
// extensions.
#pragma once

#include "data/chosen_set.h"
#include "data/text/labelled_corpus.h"

namespace tandem::datasets {

// There is no default.
LabelledCorpusRegistry& labelled_corpora();

// Configuration of such a corpus.
using LabelledTextOptions = ChosenSet<labelled_corpora, LabelledCorpusOptions>;

// Throws UserError for missing or invalid files.
LabelledCorpus open_labelled_corpus(const LabelledTextOptions& options);
// The classes if they are known before reading; otherwise none.
std::vector<std::string> known_classes(const LabelledTextOptions& options);

}  // namespace tandem::datasets
