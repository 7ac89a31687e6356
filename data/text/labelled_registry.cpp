#include "data/text/labelled_registry.h"

#include "data/text/labelled_lines.h"

namespace tandem::datasets {

LabelledCorpusRegistry& labelled_corpora() {
  static LabelledCorpusRegistry family({.what = "corpus", .help = "the labelled texts"},
                                       {labelled_lines_entry});
  return family;
}

const options::Schema& LabelledTextOptions::schema() {
  static const options::Schema schema = options::Describe<LabelledTextOptions>()
                                            .choice(&LabelledTextOptions::corpus)
                                            .include(&LabelledTextOptions::common)
                                            .options_of(&LabelledTextOptions::corpus)
                                            .short_key("name");
  return schema;
}

LabelledCorpus open_labelled_corpus(const LabelledTextOptions& options) {
  return labelled_corpora().make(options.corpus).read(options.common);
}

std::vector<std::string> known_classes(const LabelledTextOptions& options) {
  return labelled_corpora().make(options.corpus).classes;
}

}  // namespace tandem::datasets
