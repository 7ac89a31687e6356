// Registry of corpora: "text" (data/text/text_file.h), and those of extensions.
#pragma once

#include <string_view>

#include "data/chosen_set.h"
#include "data/text/corpus.h"

namespace tandem::datasets {

// There is no default.
CorpusRegistry& corpora();

// Configuration of a corpus.
using TextOptions = ChosenSet<corpora, CorpusOptions>;

// Throws UserError for missing or invalid files.
TextCorpus open_corpus(const TextOptions& options);
// Opens a corpus by name. Throws UserError also for an unknown name (with the nearest) and for unknown keys.
//   open_corpus("text", {}, {{"train", "shakespeare.txt"}});
TextCorpus open_corpus(std::string_view name, const CorpusOptions& common = {},
                       const options::Given& own = {});

}  // namespace tandem::datasets
