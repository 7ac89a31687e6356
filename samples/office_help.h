// Translation corpus from LibreOffice's help pages in two languages (Debian's libreoffice-help-…). Pairs are
// paragraphs with the same id, which all languages share (samples/help_page.h).
//
// split_of assigns whole pages to splits, by their path below the language's folder. Many phrases recur: each
// split has a source once, with all of its translations; validation and test drop sources of the training
// split. Paragraphs that are equal in both languages (names and code) are dropped, too. German to English of
// LibreOffice 7.4.7: 62,535 paragraphs in common on 2,560 pages, 53,625 of which differ; 35,922 without
// repeats.
#pragma once

#include <filesystem>

#include "data/text/pair_registry.h"

namespace tandem::datasets {

struct OfficeHelpOptions {
  std::optional<std::string> path{};  // folder of the languages; absent: the installed one
  std::string source = "de", target = "en-US";
  static const options::Schema& schema();
};

std::filesystem::path installed_office_help();

// Pairs follow the order of the page paths. Throws UserError when a language is missing (with its package), a
// page is not UTF-8, the languages have no page or a split no paragraph in common, or both languages are the
// same.
PairTexts read_office_help(const OfficeHelpOptions& options);
PairCorpusRegistry::Entry office_help_entry();

}  // namespace tandem::datasets
