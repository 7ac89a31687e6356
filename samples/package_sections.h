// Text classification corpus: Debian's package descriptions, labelled with the package's archive section.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/labelled_corpus.h"

namespace tandem::datasets {

// The classes, sorted. Small sections are merged into a related one ("kernel" into "admin", "httpd" into
// "web", "gnome" and "kde" into "desktop"). Sections without a topic are merged into "misc".
const std::vector<std::string>& section_classes();
// The class of a section, without the prefix of its archive area ("contrib/", "non-free/"); an unknown
// section is "misc".
const std::string& class_of_section(std::string_view section);

// The corpus is split by source (split_of). Descriptions without a section are left out and counted in the
// notes. Throws UserError as read_package_descriptions does, and when a split is empty.
LabelledCorpus package_sections(const std::filesystem::path& path, const LabelledCorpusOptions& options = {});
LabelledCorpusRegistry::Entry package_sections_entry();

}  // namespace tandem::datasets
