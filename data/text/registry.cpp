#include "data/text/registry.h"

#include "data/text/text_file.h"

namespace tandem::datasets {

CorpusRegistry& corpora() {
  static CorpusRegistry family({.what = "corpus", .help = "the text"}, {text_file_entry});
  return family;
}

const options::Schema& TextOptions::schema() {
  static const options::Schema schema = options::Describe<TextOptions>()
                                            .choice(&TextOptions::corpus)
                                            .include(&TextOptions::common)
                                            .options_of(&TextOptions::corpus)
                                            .short_key("name");
  return schema;
}

TextCorpus open_corpus(const TextOptions& options) { return corpora().make(options.corpus, options.common); }

TextCorpus open_corpus(std::string_view name, const CorpusOptions& common, const options::Given& own) {
  return open_corpus({options::Choice<corpora>(name, own), common});
}

}  // namespace tandem::datasets
