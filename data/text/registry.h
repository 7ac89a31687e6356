// Corpora by name: "text" (data/text/text_file.h), and those that were added.
#pragma once

#include <string_view>

#include "data/text/corpus.h"

namespace tandem::datasets {

// One must be named.
CorpusRegistry& corpora();

// What a configuration says about a corpus.
struct TextOptions {
  options::Choice<corpora> corpus;
  CorpusOptions common;
  static const options::Schema& schema();
};

// Throws UserError: missing files, and whatever is wrong with the files.
TextCorpus open_corpus(const TextOptions& options);
// By name; throws UserError also for an unknown one (with the nearest) and for keys it does not have.
//   open_corpus("text", {}, {{"train", "shakespeare.txt"}});
TextCorpus open_corpus(std::string_view name, const CorpusOptions& common = {},
                       const options::Given& own = {});

}  // namespace tandem::datasets
