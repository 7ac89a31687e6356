#include "samples/package_sections.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "samples/package_descriptions.h"

namespace tandem::datasets {

namespace {

constexpr const char* kOther = "misc";

// Merged sections: those of fewer than about 200 descriptions, and the desktops.
constexpr std::array<std::pair<std::string_view, const char*>, 23> kFolded{
    {{"cli-mono", "libs"},
     {"comm", "net"},
     {"debug", "devel"},
     {"education", "science"},
     {"embedded", "electronics"},
     {"gnome", "desktop"},
     {"gnustep", "desktop"},
     {"hamradio", "electronics"},
     {"httpd", "web"},
     {"kde", "desktop"},
     {"kernel", "admin"},
     {"news", "net"},
     {"oldlibs", "libs"},
     {"otherosfs", "utils"},
     {"shells", "utils"},
     {"tasks", "metapackages"},
     {"tex", "text"},
     {"vcs", "devel"},
     {"virtual", kOther},
     {"xfce", "desktop"},
     {"zope", "web"},
     {"raku", "interpreters"},
     {"translations", "localization"}}};

// "contrib/games" is "games".
std::string_view without_area(std::string_view section) {
  const std::size_t area = section.rfind('/');
  return area == std::string_view::npos ? section : section.substr(area + 1);
}

Index place_of(const std::string& name) {
  return std::ranges::lower_bound(section_classes(), name) - section_classes().begin();
}

}  // namespace

const std::vector<std::string>& section_classes() {
  static const std::vector<std::string> classes{
      "admin",         "database", "desktop",      "devel",    "doc",      "editors", "electronics",
      "fonts",         "games",    "gnu-r",        "golang",   "graphics", "haskell", "interpreters",
      "introspection", "java",     "javascript",   "libdevel", "libs",     "lisp",    "localization",
      "mail",          "math",     "metapackages", "misc",     "net",      "ocaml",   "perl",
      "php",           "python",   "ruby",         "rust",     "science",  "sound",   "text",
      "utils",         "video",    "web",          "x11"};
  return classes;
}

const std::string& class_of_section(std::string_view section) {
  section = without_area(section);
  const auto folded = std::ranges::find(kFolded, section, &decltype(kFolded)::value_type::first);
  const std::string name(folded == kFolded.end() ? section : std::string_view(folded->second));
  const bool known = std::ranges::binary_search(section_classes(), name);
  return section_classes()[static_cast<std::size_t>(place_of(known ? name : kOther))];
}

LabelledCorpus package_sections(const std::filesystem::path& path, const LabelledCorpusOptions& options) {
  const std::vector<PackageDescription> records = read_package_descriptions(path);
  LabelledParts parts{.classes = section_classes(), .train = {}, .validation = {}, .test = {}};
  Index without = 0, folded = 0;
  for (const PackageDescription& record : records) {
    if (record.section.empty()) {
      ++without;
      continue;
    }
    const std::string& name = class_of_section(record.section);
    folded += name != without_area(record.section);
    auto& part = record.split == TextSplit::train        ? parts.train
                 : record.split == TextSplit::validation ? parts.validation
                                                         : parts.test;
    part.push_back({record.text, place_of(name)});
  }
  require(!parts.train.empty() && !parts.validation.empty() && !parts.test.empty(), path.string(),
          "has {} descriptions with a section for training, {} for validation and {} for test; each split "
          "needs at least one",
          parts.train.size(), parts.validation.size(), parts.test.size());
  LabelledCorpus corpus = make_labelled_corpus(parts, options, path.string());
  corpus.notes.push_back(
      fmt::format("{} descriptions of small sections have the class of another section", folded));
  if (without > 0)
    corpus.notes.push_back(fmt::format("{} descriptions without a section are left out", without));
  return corpus;
}

LabelledCorpusRegistry::Entry package_sections_entry() {
  return LabelledCorpusRegistry::entry<PackageTextOptions>(
      "package_sections", "descriptions of Debian's packages with their sections, split by source",
      PackageTextOptions::schema(), [](const PackageTextOptions& own) {
        return LabelledReader{std::bind_front(package_sections, own.path ? std::filesystem::path(*own.path)
                                                                         : fetched_package_descriptions()),
                              section_classes()};
      });
}

}  // namespace tandem::datasets
