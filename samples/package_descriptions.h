// The English descriptions of Debian's packages, from the file that `./run data` makes.
//
// The packages of one source share paragraphs: a text that is split without regard to sources is looked up,
// not modelled. So whole sources are kept for validation and test, by a hash of their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/corpus.h"
#include "samples/split.h"

namespace tandem::datasets {

struct PackageDescription {
  std::string package, source;
  std::string section;  // of the archive: "games"; empty where it is not known
  std::string text;     // the short description, " . ", the long one in one line, " . " between paragraphs
  TextSplit split = TextSplit::train;
};

// In the order of the file; of equal texts the first. A record is "Package:", "Source:", "Section:" (may be
// absent), "Description-en:" and lines that begin with a space, up to an empty line. Throws UserError naming
// the file when it is missing, too large or holds no description, with the line too where one is no UTF-8 or
// its package or source is not known.
std::vector<PackageDescription> read_package_descriptions(const std::filesystem::path& path);

// Where `./run data` puts the file.
std::filesystem::path fetched_package_descriptions();

struct PackageTextOptions {
  std::optional<std::string> path{};  // absent: what was fetched
  static const options::Schema& schema();
};

// Each description is a document. Throws UserError as above, and when a part has none.
TextCorpus package_corpus(const std::filesystem::path& path, const CorpusOptions& options = {});
CorpusRegistry::Entry package_descriptions_entry();

}  // namespace tandem::datasets
