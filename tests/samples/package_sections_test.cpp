// Package descriptions with the sections of their packages.
#include "samples/package_sections.h"

#include <algorithm>

#include "data/text/labelled_registry.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using namespace tandem::test;

using Catch::Contains;
using datasets::class_of_section;
using datasets::LabelledCorpus;
using testing::TemporaryDirectory;
using testing::user_error_of;

namespace {

// CRC-32 modulo 20 (zlib.crc32 of Python): linux 3, apt 18, tau 19.
constexpr const char* kRecords =
    "Package: linux-doc\nSource: linux\nSection: doc\nDescription-en: Documents\n\n"
    "Package: linux-image\nSource: linux\nSection: contrib/kernel\nDescription-en: The kernel\n\n"
    "Package: linux-none\nSource: linux\nDescription-en: Nowhere\n\n"
    "Package: apt\nSource: apt\nSection: admin\nDescription-en: Installer\n\n"
    "Package: tau\nSource: tau\nSection: non-free/devel\nDescription-en: Profiler\n";

}  // namespace

TEST_CASE("sections are folded into classes", "[text]") {
  const auto& classes = datasets::section_classes();
  CHECK(std::ranges::is_sorted(classes));
  CHECK(std::ranges::adjacent_find(classes) == classes.end());
  for (const std::string& name : classes) CHECK(class_of_section(name) == name);
  CHECK(class_of_section("contrib/games") == "games");
  CHECK(class_of_section("non-free-firmware/kernel") == "admin");
  CHECK(class_of_section("gnome") == "desktop");
  CHECK(class_of_section("httpd") == "web");
  CHECK(class_of_section("virtual") == "misc");
  CHECK(class_of_section("a section of next year") == "misc");
  CHECK(datasets::known_classes(
            {.set = options::Choice<datasets::labelled_corpora>("package_sections"), .common = {}})
            .size() == 39);
}

TEST_CASE("descriptions have their section as a label, and sources keep together", "[text]") {
  const TemporaryDirectory folder;
  const LabelledCorpus corpus = datasets::package_sections(folder.write("descriptions", kRecords));
  const auto names = [&](const datasets::LabelledSequences& texts) {
    std::vector<std::string> all;
    for (const std::int64_t label : texts.labels)
      all.push_back(corpus.classes[static_cast<std::size_t>(label)]);
    return all;
  };
  CHECK(names(corpus.train) == std::vector<std::string>{"doc", "admin"});
  CHECK(names(corpus.validation) == std::vector<std::string>{"admin"});
  CHECK(names(corpus.test) == std::vector<std::string>{"devel"});
  REQUIRE(corpus.notes.size() == 2);
  CHECK_THAT(corpus.notes[0], Contains("1 descriptions of small sections have the class of another section"));
  CHECK_THAT(corpus.notes[1], Contains("1 descriptions without a section"));
}

TEST_CASE("descriptions without sections train nothing", "[text]") {
  const TemporaryDirectory folder;
  const auto wrong = [&](const std::string& text) {
    return user_error_of([&] { datasets::package_sections(folder.write("descriptions", text)); });
  };
  CHECK_THAT(wrong("Package: linux-none\nSource: linux\nDescription-en: Nowhere\n"),
             Contains("0 descriptions with a section for training"));
  CHECK_THAT(wrong("nothing\n"), Contains("Description-en:"));
  CHECK_THAT(user_error_of([&] { datasets::package_sections(folder / "absent"); }), Contains("./run data"));
}
