// Debian's package descriptions with the sections of the archive that the packages stand in.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/labelled_corpus.h"

namespace tandem::datasets {

// The classes, sorted. Sections of a few packages count as one that means nearly the same ("kernel" as
// "admin", "httpd" as "web", "gnome" and "kde" as "desktop"), those that say nothing of their packages as
// "misc".
const std::vector<std::string>& section_classes();
// That of a section, the archive's area in front ("contrib/", "non-free/") left out; a section that is not
// known is "misc".
const std::string& class_of_section(std::string_view section);

// Whole sources are kept for validation and test (split_of_source); descriptions without a section are left
// out, which the notes say. Throws UserError as read_package_descriptions does, and when a part has none.
LabelledCorpus package_sections(const std::filesystem::path& path, const LabelledCorpusOptions& options = {});
LabelledCorpusRegistry::Entry package_sections_entry();

}  // namespace tandem::datasets
