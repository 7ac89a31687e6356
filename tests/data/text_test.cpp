// Words, vocabularies and package descriptions.
#include "data/text.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "core/error.h"
#include "data/io/byte_reader.h"
#include "tests/data/files.h"

namespace tandem::test {

using datasets::Vocabulary;
using Words = std::vector<std::string>;

TEST_CASE("words: lower case, apostrophes and numbers whole, full stops apart", "[text]") {
  CHECK(datasets::words_of("It's A  test, v3.2 (really).") ==
        Words{"it's", "a", "test", "v3.2", "really", "."});
  CHECK(datasets::words_of("a . . b.") == Words{"a", ".", "b", "."});
  CHECK(datasets::words_of("") == Words{});
  CHECK(datasets::words_of("caf\xc3\xa9") == Words{"caf\xc3\xa9"});
}

TEST_CASE("a vocabulary holds the most frequent words, in a fixed order", "[text]") {
  const Vocabulary vocabulary({{"b", "a", "c", "a"}, {"b", "d"}}, 5);
  CHECK(vocabulary.size() == 5);
  CHECK(vocabulary.word(2) == "a");
  CHECK(vocabulary.word(3) == "b");
  CHECK(vocabulary.word(4) == "c");
  CHECK(vocabulary.number_of("d") == Vocabulary::kUnknown);
  CHECK(Vocabulary({{"a"}}, 100).size() == 3);
  CHECK_THROWS_AS(Vocabulary({}, 2), UserError);
}

TEST_CASE("a file is read up to its limit, and no longer one", "[text]") {
  const datasets::testing::TempFolder folder;
  datasets::testing::write_file(folder / "ten", datasets::testing::Bytes(10, 7));
  CHECK(datasets::read_file(folder / "ten", 10).size() == 10);
  CHECK_THROWS_WITH(datasets::read_file(folder / "ten", 9), Catch::Contains("has 10 bytes, the limit is 9"));
}

TEST_CASE("descriptions are read from a translation index, equal ones once", "[text]") {
  const auto path = std::filesystem::temp_directory_path() / "tandem-text-test";
  std::ofstream file(path);
  for (int i = 0; i < 40; ++i)
    file << "Package: p" << i << "\nDescription-md5: 00\nDescription-en: Short " << i
         << "\n Long text of\n two lines.\n .\n More.\nOther: field\n more of it\n\n";
  file << "Package: again\nDescription-en: Short 0\n Long text of\n two lines.\n .\n More.\n";
  file.close();
  const auto corpus = datasets::read_package_descriptions(path, 1000);
  CHECK(std::ranges::count(corpus.train, Vocabulary::kEnd) == 38);
  CHECK(std::ranges::count(corpus.validation, Vocabulary::kEnd) == 2);
  Words first;
  for (const std::int32_t token : corpus.train) {
    if (token == Vocabulary::kEnd) break;
    first.push_back(corpus.vocabulary.word(token));
  }
  CHECK(first == Words{"short", "0", ".", "long", "text", "of", "two", "lines", ".", "more", "."});
  CHECK(corpus.vocabulary.number_of("field") == Vocabulary::kUnknown);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(datasets::read_package_descriptions(path, 100), UserError);
  std::ofstream(path) << "nothing here\n";
  CHECK_THROWS_WITH(datasets::read_package_descriptions(path, 100), Catch::Contains("Description-en"));
  std::filesystem::remove(path);
}

}  // namespace tandem::test
