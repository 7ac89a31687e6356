#include "samples/office_help.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/options/check.h"
#include "data/text/tokenizer.h"
#include "files/input.h"
#include "files/not_there.h"
#include "samples/help_page.h"
#include "samples/split.h"

namespace tandem::datasets {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxPage = std::uint64_t{16} << 20;  // bytes

// Appends page paths relative to `folder`, as "text/shared/05/new_help.html"; does not follow folder links.
void list_pages(const fs::path& folder, const fs::path& below, std::vector<std::string>& pages) {
  for (const fs::directory_entry& entry : files::entries_of(folder / below)) {
    const fs::path name = below / entry.path().filename();
    if (entry.is_directory() && !entry.is_symlink()) {
      list_pages(folder, name, pages);
    } else if (name.extension() == ".html") {
      pages.push_back(name.generic_string());
    }
  }
}

fs::path folder_of(const fs::path& home, const std::string& language) {
  const fs::path folder = home / language;
  std::string package = "libreoffice-help-" + language;
  std::ranges::transform(package, package.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  files::require_there(files::kind_of(folder / "text") == files::Kind::folder, folder.string(),
                       "has no folder \"text\" of help in this language; install it with `apt install {}`",
                       package);
  return folder;
}

std::vector<HelpParagraph> read_page(const fs::path& path) {
  const std::string page = files::read_text(path, kMaxPage);
  require_utf8(page, path.string());
  return help_paragraphs(page);
}

// The pairs of a split, one per source.
class Part {
 public:
  void add(std::string source, std::string target) {
    const auto [found, fresh] = places_.emplace(source, pairs_.size());
    if (fresh) pairs_.push_back({std::move(source), {}});
    std::vector<std::string>& targets = pairs_[found->second].targets;
    if (std::ranges::find(targets, target) == targets.end()) targets.push_back(std::move(target));
  }
  bool has(const std::string& source) const { return places_.contains(source); }
  std::size_t leave_out(const Part& train) {
    return std::erase_if(pairs_, [&](const TextPair& pair) { return train.has(pair.source); });
  }
  std::vector<TextPair> take() { return std::move(pairs_); }

 private:
  std::vector<TextPair> pairs_;
  TextMap<std::size_t> places_;
};

void add_page(std::vector<HelpParagraph> from, std::vector<HelpParagraph> to, Part& part) {
  TextMap<std::string> translations;
  for (HelpParagraph& paragraph : to)
    translations.emplace(std::move(paragraph.id), std::move(paragraph.text));
  for (HelpParagraph& paragraph : from) {
    const auto found = translations.find(paragraph.id);
    if (found != translations.end() && found->second != paragraph.text)
      part.add(std::move(paragraph.text), found->second);
  }
}

}  // namespace

fs::path installed_office_help() { return "/usr/share/libreoffice/help"; }

PairTexts read_office_help(const OfficeHelpOptions& options) {
  options::require_sound("office_help", OfficeHelpOptions::schema(), &options);
  const fs::path home = options.path ? fs::path(*options.path) : installed_office_help();
  const fs::path source = folder_of(home, options.source), target = folder_of(home, options.target);
  std::vector<std::string> pages;
  list_pages(source, "text", pages);
  std::ranges::sort(pages);
  Part train, validation, test;
  for (const std::string& page : pages) {
    if (files::kind_of(target / page) != files::Kind::file) continue;
    const TextSplit split = split_of(page);
    add_page(read_page(source / page), read_page(target / page),
             split == TextSplit::train        ? train
             : split == TextSplit::validation ? validation
                                              : test);
  }
  const std::size_t known = validation.leave_out(train) + test.leave_out(train);
  PairTexts texts{.train = train.take(),
                  .validation = validation.take(),
                  .test = test.take(),
                  .where = fmt::format("{} and {}", source.string(), target.string()),
                  .notes = {}};
  require(!texts.train.empty() && !texts.validation.empty() && !texts.test.empty(), texts.where,
          "have {} paragraphs in common for training, {} for validation and {} for test; each split needs at "
          "least one",
          texts.train.size(), texts.validation.size(), texts.test.size());
  texts.notes.push_back(fmt::format(
      "{} paragraphs of validation and test pages are left out: training pages have them, too", known));
  return texts;
}

const options::Schema& OfficeHelpOptions::schema() {
  static const options::Schema schema =
      options::Describe<OfficeHelpOptions>()
          .key("path", &OfficeHelpOptions::path,
               "folder with one subfolder per language; null: the folder of Debian's libreoffice-help "
               "packages")
          .key("source", &OfficeHelpOptions::source, "source language: the name of its folder")
          .key("target", &OfficeHelpOptions::target, "target language: the name of its folder")
          .rule("target", "must differ from the source language",
                [](const OfficeHelpOptions& o) { return o.source != o.target; });
  return schema;
}

PairCorpusRegistry::Entry office_help_entry() {
  return PairCorpusRegistry::entry<OfficeHelpOptions>(
      "office_help", "paragraphs of LibreOffice's help in two languages, split by page",
      OfficeHelpOptions::schema(), [](const OfficeHelpOptions& options) {
        // Coverage 1 gives every character a piece.
        return PairReader{std::bind_front(read_office_help, options),
                          {.codec = CodecChoice("unigram", {{"coverage", 1.0}})}};
      });
}

}  // namespace tandem::datasets
