#include "data/text/registry.h"

#include "data/text/text_file.h"

namespace tandem::datasets {

CorpusRegistry& corpora() {
  static CorpusRegistry family({.what = "corpus", .help = "the text"}, {text_file_entry});
  return family;
}

TextCorpus open_corpus(const TextOptions& options) { return corpora().make(options.set, options.common); }

TextCorpus open_corpus(std::string_view name, const CorpusOptions& common, const options::Given& own) {
  return open_corpus({options::Choice<corpora>(name, own), common});
}

}  // namespace tandem::datasets
