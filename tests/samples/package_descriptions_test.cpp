// Package descriptions, split by source.
#include "samples/package_descriptions.h"

#include <cstdlib>

#include "data/io/byte_reader.h"
#include "data/text/registry.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::test;

using datasets::PackageDescription;
using datasets::TextSplit;
using datasets::Vocabulary;
using datasets::testing::TempFolder;

namespace {

std::string write(const TempFolder& folder, const std::string& text) {
  datasets::testing::write_file(folder / "descriptions", {text.begin(), text.end()});
  return (folder / "descriptions").string();
}

// CRC-32 modulo 20 (zlib.crc32 of Python): linux 3, apt 18, tau 19.
constexpr const char* kRecords =
    "Package: linux-doc\nSource: linux\nSection: doc\nDescription-en: Short one\n Long text of\n two "
    "lines.\n .\n"
    " More.\nOther: field\n more of it\n\n"
    "Package: apt\nSource: apt\nSection: admin\nDescription-en: Tool\n\n"
    "Package: tau\nSource: tau\nDescription-en: Profiler\n Of programs.\n\n"
    "Package: linux-copy\nSource: linux\nSection: doc\nDescription-en: Short one\n Long text of\n two "
    "lines.\n .\n"
    " More.\n\n"
    "Package: libtau\nSource: tau\nSection: libs\nDescription-en: Profiler\n The library.\n";

}  // namespace

TEST_CASE("a file is read up to its limit, and no longer one", "[text]") {
  const TempFolder folder;
  datasets::testing::write_file(folder / "ten", datasets::testing::Bytes(10, 7));
  CHECK(datasets::read_file(folder / "ten", 10).size() == 10);
  CHECK_THROWS_WITH(datasets::read_file(folder / "ten", 9), Catch::Contains("has 10 bytes, the limit is 9"));
}

TEST_CASE("sources are split by a hash of their names", "[text]") {
  CHECK(datasets::split_of("linux") == TextSplit::train);
  CHECK(datasets::split_of("bash") == TextSplit::train);  // 0
  for (const char* source : {"lambda", "omicron", "python3.11", "apt", "make", "mesa"})
    CHECK(datasets::split_of(source) == TextSplit::validation);
  for (const char* source : {"tau", "psi", "less"}) CHECK(datasets::split_of(source) == TextSplit::test);
}

TEST_CASE("descriptions are read with source and section, equal ones once", "[text]") {
  const TempFolder folder;
  const auto records = datasets::read_package_descriptions(write(folder, kRecords));
  REQUIRE(records.size() == 4);
  CHECK(records[0].package == "linux-doc");
  CHECK(records[0].source == "linux");
  CHECK(records[0].section == "doc");
  CHECK(records[0].split == TextSplit::train);
  CHECK(datasets::words_of(records[0].text) == std::vector<std::string>{"short", "one", ".", "long", "text",
                                                                        "of", "two", "lines", ".", "more",
                                                                        "."});
  CHECK(records[1].split == TextSplit::validation);
  CHECK(records[2].section.empty());
  CHECK(records[3].package == "libtau");
  CHECK(records[3].section == "libs");
  CHECK(records[3].split == TextSplit::test);
}

TEST_CASE("descriptions as a corpus: whole sources are kept for validation and test", "[text]") {
  const TempFolder folder;
  const auto corpus = datasets::package_corpus(write(folder, kRecords));
  const auto text = [&](const datasets::PackedText& part) {
    return corpus.vocabulary.decode(part.ids.unpacked());
  };
  CHECK(corpus.train.ids.size() == 12);
  CHECK(corpus.train.unknown == 0);
  CHECK(corpus.vocabulary.has("lines"));
  CHECK_FALSE(corpus.vocabulary.has("profiler"));
  CHECK(text(corpus.validation) == std::vector<std::string>{"<unk>", ".", "<end>"});
  CHECK(text(corpus.test) == std::vector<std::string>{"<unk>", ".", "of", "<unk>", ".", "<end>", "<unk>", ".",
                                                      "<unk>", "<unk>", ".", "<end>"});
  CHECK(corpus.test.unknown == 5);
  REQUIRE(corpus.notes.size() == 1);
}

TEST_CASE("lists of apt are joined: sources and sections beside descriptions", "[text]") {
  const TempFolder folder;
  const auto put = [&](const char* name, const std::string& text) {
    datasets::testing::write_file(folder / name, {text.begin(), text.end()});
    return (folder / name).string();
  };
  const std::string packages =
      put("packages",
          "Package: gcc\nVersion: 1\nSource: gcc-defaults (1.203)\nDescription: The\n"
          " compiler\nTag: a,\n b\nSection: devel\nSize: 1\n\n"
          "Package: apt\nSection: admin\n\nPackage: odd\nSource: even\n");
  const std::string translation =
      put("translation",
          "Package: gcc\nDescription-md5: 00\nDescription-en: GNU C\n Compiler\xc3\xa9.\n"
          " .\n Fast.\n\nPackage: apt\nDescription-md5: 01\nDescription-en: Tool\n\n"
          "Package: odd\nDescription-en: Odd\n\nPackage: i386-only\nDescription-en: Old\n");
  const std::string out = (folder / "joined").string();
  REQUIRE(std::system((source_path("samples/join_sources") + " " + packages + " " + translation + " " + out)
                          .c_str()) == 0);
  const auto bytes = datasets::testing::read_bytes(out);
  CHECK(std::string(bytes.begin(), bytes.end()) ==
        "Package: gcc\nSource: gcc-defaults\nSection: devel\nDescription-en: GNU C\n Compiler\xc3\xa9.\n .\n "
        "Fast.\n\n"
        "Package: apt\nSource: apt\nSection: admin\nDescription-en: Tool\n\n"
        "Package: odd\nSource: even\nDescription-en: Odd\n\n"
        "Package: i386-only\nSource: i386-only\nDescription-en: Old\n\n");
  const auto records = datasets::read_package_descriptions(out);
  REQUIRE(records.size() == 4);
  CHECK(records[0].source == "gcc-defaults");
  CHECK(records[3].source == "i386-only");
}

TEST_CASE("files of descriptions that are not as they should be", "[text]") {
  const TempFolder folder;
  const auto read = [&](const std::string& text) { datasets::package_corpus(write(folder, text)); };
  CHECK_FAILS(UserError, read("nothing here\n"),
              "descriptions] has no line that begins with \"Description-en:\"");
  CHECK_FAILS(UserError, read("Package: a\nDescription-en: b\n"),
              "descriptions:2] the description has no \"Source:\" before it");
  CHECK_FAILS(UserError, read("Package: a\nSource: a\n\nDescription-en: b\n"),
              "descriptions:4] the description has no \"Package:\" before it");
  CHECK_FAILS(UserError, read("Package: a\nSource: a\nDescription-en: b\n c\xff\n"),
              "descriptions:4] byte 3 is 0xff, expected UTF-8");
  CHECK_FAILS(UserError, read("Package: a\nSource: linux\nDescription-en: b\n"),
              "descriptions] has 1 descriptions for training, 0 for validation and 0 for test");
  CHECK_FAILS(UserError, datasets::read_package_descriptions(folder / "nowhere"),
              "nowhere] is missing; `./run data` fetches it");
}

TEST_CASE("the file of descriptions that is missing names the command that fetches it", "[text]") {
  CHECK_FAILS(UserError, datasets::open_corpus("package_descriptions", {}, {{"path", "nowhere"}}),
              "[nowhere] is missing; `./run data` fetches it");
}
