#include "data/text/labelled_registry.h"

#include "data/text/labelled_lines.h"

namespace tandem::datasets {

LabelledCorpusRegistry& labelled_corpora() {
  static LabelledCorpusRegistry family({.what = "corpus", .help = "the labelled texts"},
                                       {labelled_lines_entry});
  return family;
}

LabelledCorpus open_labelled_corpus(const LabelledTextOptions& options) {
  return labelled_corpora().make(options.set).read(options.common);
}

std::vector<std::string> known_classes(const LabelledTextOptions& options) {
  return labelled_corpora().make(options.set).classes;
}

}  // namespace tandem::datasets
