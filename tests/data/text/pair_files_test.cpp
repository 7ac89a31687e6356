// Pairs from the user's files.
#include "data/text/pair_files.h"

#include "tests/data/files.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::PairFileOptions;
using datasets::PairTexts;
using datasets::read_pair_files;
using datasets::testing::TempFolder;

namespace {

std::string write(const TempFolder& folder, const std::string& name, const std::string& text) {
  datasets::testing::write_file(folder / name, {text.begin(), text.end()});
  return (folder / name).string();
}

// All for training.
PairTexts read(datasets::PairPaths paths, Index max_line = 100) {
  return read_pair_files(
      {.train = std::move(paths), .validation_fraction = 0.0, .test_fraction = 0.0, .max_line = max_line});
}

std::string text_of(const std::vector<datasets::TextPair>& pairs) {
  std::string text;
  for (const datasets::TextPair& pair : pairs) {
    text += pair.source;
    for (const std::string& target : pair.targets) text += "=" + target;
    text += ";";
  }
  return text;
}

}  // namespace

TEST_CASE("two files whose lines belong together, and a table", "[pairs]") {
  const TempFolder folder;
  const PairTexts two = read({.source = write(folder, "de",
                                              "\xEF\xBB\xBF"
                                              "ein Haus\r\nzwei\n"),
                              .target = write(folder, "en", "a house\ntwo")});
  CHECK(text_of(two.train) == "ein Haus=a house;zwei=two;");
  CHECK(two.validation.empty());
  CHECK(two.test.empty());
  const PairTexts table = read({.table = write(folder, "tsv", "a\tx y\tz\r\nb c\tw\n")});
  CHECK(text_of(table.train) == "a=x y=z;b c=w;");
}

TEST_CASE("parts from files, and from the end of the training files", "[pairs]") {
  const TempFolder folder;
  const std::string train = write(folder, "train", "a\t1\nb\t2\nc\t3\nd\t4\ne\t5\n");
  const PairTexts cut =
      read_pair_files({.train = {.table = train}, .validation_fraction = 0.2, .test_fraction = 0.4});
  CHECK(text_of(cut.train) == "a=1;b=2;");
  CHECK(text_of(cut.validation) == "c=3;");
  CHECK(text_of(cut.test) == "d=4;e=5;");
  const PairTexts given =
      read_pair_files({.train = {.table = train},
                       .validation = datasets::PairPaths{.table = write(folder, "v", "f\t6\n")},
                       .test = datasets::PairPaths{.table = write(folder, "t", "g\t7\n")}});
  CHECK(given.train.size() == 5);
  CHECK(text_of(given.validation) == "f=6;");
  CHECK(text_of(given.test) == "g=7;");
  CHECK_FAILS(UserError,
              read_pair_files({.train = {.table = train}, .validation_fraction = 0.1, .test_fraction = 0.2}),
              "validation_fraction of 0.1 of its 5 pairs leaves it without any");
}

TEST_CASE("from a configuration: a path is a table", "[pairs]") {
  const TempFolder folder;
  const auto path = write(folder, "train", "a b\t1\nb a\t2\n");
  const auto corpus =
      datasets::open_pairs("text_pairs", {.codec = datasets::CodecChoice("spaces")},
                           {{"train", path}, {"validation_fraction", 0.0}, {"test_fraction", 0.5}});
  CHECK(corpus.train.size() == 1);
  CHECK(corpus.test.references == std::vector<std::vector<std::string>>{{"2"}});
}

TEST_CASE("errors of pair files name file and line", "[pairs]") {
  const TempFolder folder;
  const auto table = [&](const std::string& text) {
    return read({.table = write(folder, "t.tsv", text)}, 9);
  };
  CHECK_FAILS(UserError, table("a\tb\nc\n"), "t.tsv:2] has one column");
  CHECK_FAILS(UserError, table("a\tb\n\tc\n"), "t.tsv:2] column 1 of 2 is empty");
  CHECK_FAILS(UserError, table("a\tb\nc\t\n"), "t.tsv:2] column 2 of 2 is empty");
  CHECK_FAILS(UserError, table("a\tb\nc\td\t \n"), "t.tsv:2] column 3 of 3 is empty");
  CHECK_FAILS(UserError, table("a\tb\n\n"), "t.tsv:2] has one column");
  CHECK_FAILS(UserError, table(""), "t.tsv] is empty");
  CHECK_FAILS(UserError, table("a\tb\nc\t\xFF\n"), "t.tsv:2] byte 3 is 0xff, expected UTF-8");
  CHECK_FAILS(UserError, table("a\tb\nlong\tlong!\n"), "t.tsv:2] a line of 10 bytes, at most 9 are allowed");
  CHECK_FAILS(UserError, read({.table = (folder / "none").string()}), "none");

  const auto two = [&](const std::string& source, const std::string& target) {
    return read({.source = write(folder, "de", source), .target = write(folder, "en", target)});
  };
  CHECK_FAILS(UserError, two("a\nb\nc\n", "a\nb\n"), "de] has 3 lines and ");
  CHECK_FAILS(UserError, two("a\n \n", "a\nb\n"), "de:2] is empty");
  CHECK_FAILS(UserError, two("a\nb\n", "\nb\n"), "en:1] is empty");
  CHECK_FAILS(UserError, two("", ""), "de] is empty");
  CHECK_FAILS(UserError, two("a\n", "\xC3\n"), "en:1] byte 1 is 0xc3");

  CHECK_FAILS(UserError, read({}), "source and target must be given");
  CHECK_FAILS(UserError, read({.source = "a"}), "source and target must be given");
  CHECK_FAILS(UserError, read({.table = "a", .source = "a", .target = "b"}), "not both");
}
