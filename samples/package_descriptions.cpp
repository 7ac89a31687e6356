#include "samples/package_descriptions.h"

#include <fmt/core.h>

#include <unordered_set>

#include "core/build_info.h"
#include "core/error.h"
#include "files/input.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace {

constexpr std::string_view kPackage = "Package: ", kSource = "Source: ", kSection = "Section: ",
                           kDescription = "Description-en:";

class RecordReader {
 public:
  explicit RecordReader(std::string path) : path_(std::move(path)) {}

  void line(std::string_view line) {
    ++number_;
    require_utf8(line, where());
    if (inside_ && line.starts_with(' ')) {
      record_.text += line == " ." ? std::string_view(" . ") : line;
      record_.text += ' ';
      return;
    }
    if (inside_) finish();
    if (line.starts_with(kPackage)) record_ = {.package = std::string(line.substr(kPackage.size()))};
    if (line.starts_with(kSource)) record_.source = line.substr(kSource.size());
    if (line.starts_with(kSection)) record_.section = line.substr(kSection.size());
    if (line.starts_with(kDescription)) begin(line.substr(kDescription.size()));
    if (line.empty()) record_ = {};
  }

  std::vector<PackageDescription> take() {
    if (inside_) finish();
    return std::move(records_);
  }

 private:
  std::string where() const { return fmt::format("{}:{}", path_, number_); }

  void begin(std::string_view title) {
    require(!record_.package.empty() && !record_.source.empty(), where(),
            "the description has no \"{}\" before it, but the split by source needs it; create the file with "
            "`./run data`",
            record_.package.empty() ? "Package:" : "Source:");
    record_.text = fmt::format("{} . ", title);
    inside_ = true;
  }
  void finish() {
    inside_ = false;
    record_.split = split_of(record_.source);
    if (seen_.insert(record_.text).second) records_.push_back(record_);
    record_.text.clear();
  }

  std::string path_;
  std::size_t number_ = 0;
  bool inside_ = false;
  PackageDescription record_;
  std::unordered_set<std::string> seen_;
  std::vector<PackageDescription> records_;
};

}  // namespace

std::vector<PackageDescription> read_package_descriptions(const std::filesystem::path& path) {
  files::require_there(files::kind_of(path) != files::Kind::absent, path.string(),
                       "is missing; `./run data` fetches it");
  const std::string text = files::read_text(path, kMaxCorpusBytes);
  RecordReader reader(path.string());
  files::each_line(text, [&](std::string_view line, bool) { reader.line(line); });
  std::vector<PackageDescription> records = reader.take();
  require(!records.empty(), path.string(), "has no line that begins with \"{}\"", kDescription);
  return records;
}

std::filesystem::path fetched_package_descriptions() {
  return std::filesystem::path(source_directory()) / ".deps/data/package-descriptions.txt";
}

TextCorpus package_corpus(const std::filesystem::path& path, const CorpusOptions& options) {
  const std::vector<PackageDescription> records = read_package_descriptions(path);
  TextParts parts;
  for (const PackageDescription& record : records) {
    auto& part = record.split == TextSplit::train        ? parts.train
                 : record.split == TextSplit::validation ? parts.validation
                                                         : parts.test;
    part.push_back(record.text);
  }
  require(
      !parts.train.empty() && !parts.validation.empty() && !parts.test.empty(), path.string(),
      "has {} descriptions for training, {} for validation and {} for test; each split needs at least one",
      parts.train.size(), parts.validation.size(), parts.test.size());
  return make_corpus(parts, options, path.string());
}

const options::Schema& PackageTextOptions::schema() {
  static const options::Schema schema = options::Describe<PackageTextOptions>().key(
      "path", &PackageTextOptions::path, "file created by `./run data`; null: the file at its default path");
  return schema;
}

CorpusRegistry::Entry package_descriptions_entry() {
  return CorpusRegistry::entry<PackageTextOptions>(
      "package_descriptions", "descriptions of Debian's packages, split by source",
      PackageTextOptions::schema(), [](const PackageTextOptions& own, const CorpusOptions& options) {
        return package_corpus(own.path ? std::filesystem::path(*own.path) : fetched_package_descriptions(),
                              options);
      });
}

}  // namespace tandem::datasets
