// Sentences and their translations: the pages of LibreOffice's help in two languages, Debian's
// libreoffice-help-…, whose paragraphs have the same ids in each (samples/help_page.h).
//
// Whole pages are kept for validation and test, by split_of of their path below the language. Phrases come on
// many pages: a source is a pair once for each part, with each of its translations, and an evaluated one that
// is also learnt is left out. So are paragraphs that are the same in both languages: names and code.
// German to English of LibreOffice 7.4.7: 62,535 paragraphs in common on 2,560 pages, 53,625 of which differ,
// 35,922 of them once each.
#pragma once

#include <filesystem>

#include "data/text/pair_registry.h"

namespace tandem::datasets {

struct OfficeHelpOptions {
  std::optional<std::string> path{};  // the folder of the languages; absent: the installed one
  std::string source = "de", target = "en-US";
  static const options::Schema& schema();
};

std::filesystem::path installed_office_help();

// In the order of the pages' paths. Throws UserError: a language is missing, with the package that has it; a
// page is no UTF-8; the languages have no page or a part no paragraph in common; the languages are the same.
PairTexts read_office_help(const OfficeHelpOptions& options);
PairCorpusRegistry::Entry office_help_entry();

}  // namespace tandem::datasets
