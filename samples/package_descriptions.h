// Corpus of the English descriptions of Debian's packages, from the file that `./run data` creates.
//
// Packages of one source share paragraphs: a split by package would leak training text into validation and
// test. The corpus is therefore split by source, with a hash of its name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/text/corpus.h"
#include "samples/split.h"

namespace tandem::datasets {

struct PackageDescription {
  std::string package, source;
  std::string section;  // of the archive, for example "games"; empty if unknown
  std::string text;     // short description, " . ", long description in one line, " . " between paragraphs
  TextSplit split = TextSplit::train;
};

// Descriptions follow the order of the file; repeated texts are dropped. A record is "Package:", "Source:",
// "Section:" (optional), "Description-en:" and lines that begin with a space, up to an empty line. Throws
// UserError with the file when it is missing, too large or without descriptions, and with the line when it is
// not UTF-8 or a description has no package or source.
std::vector<PackageDescription> read_package_descriptions(const std::filesystem::path& path);

// The path at which `./run data` stores the file.
std::filesystem::path fetched_package_descriptions();

struct PackageTextOptions {
  std::optional<std::string> path{};  // absent: the fetched file
  static const options::Schema& schema();
};

// Each description is a document. Throws UserError as above, and when a split is empty.
TextCorpus package_corpus(const std::filesystem::path& path, const CorpusOptions& options = {});
CorpusRegistry::Entry package_descriptions_entry();

}  // namespace tandem::datasets
