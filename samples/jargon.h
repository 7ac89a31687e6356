// Corpus of the Jargon File, from Debian's package jargon-text, which `./run data` fetches.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/text/corpus.h"

namespace tandem::datasets {

// The path at which `./run data` stores the file.
std::filesystem::path fetched_jargon();

struct JargonOptions {
  std::optional<std::string> path{};  // absent: the fetched file
  static const options::Schema& schema();
};

// The first nine tenths of the lines are for training, then come validation and test, half of the rest each.
// Throws UserError for a missing file, and as read_text_files does.
TextCorpus jargon_corpus(const std::filesystem::path& path, const CorpusOptions& options = {});
CorpusRegistry::Entry jargon_entry();

}  // namespace tandem::datasets
