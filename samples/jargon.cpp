#include "samples/jargon.h"

#include "core/build_info.h"
#include "core/options/registry.h"
#include "data/text/text_file.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

std::filesystem::path fetched_jargon() {
  return std::filesystem::path(source_directory()) / ".deps/data/jargon.txt";
}

TextCorpus jargon_corpus(const std::filesystem::path& path, const CorpusOptions& options) {
  files::require_there(files::kind_of(path) != files::Kind::absent, path.string(),
                       "is missing; `./run data` fetches it");
  TextFileOptions text;
  text.train.items = {path.string()};
  text.validation_fraction = text.test_fraction = 0.05;
  return read_text_files(text, options);
}

const options::Schema& JargonOptions::schema() {
  static const options::Schema schema = options::Describe<JargonOptions>().key(
      "path", &JargonOptions::path, "file created by `./run data`; null: the file at its default path");
  return schema;
}

CorpusRegistry::Entry jargon_entry() {
  return CorpusRegistry::entry<JargonOptions>(
      "jargon", "the Jargon File, a dictionary of hackers' slang in the public domain",
      JargonOptions::schema(), [](const JargonOptions& own, const CorpusOptions& options) {
        return jargon_corpus(own.path ? std::filesystem::path(*own.path) : fetched_jargon(), options);
      });
}

}  // namespace tandem::datasets
