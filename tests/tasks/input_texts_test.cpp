// Text inputs of a command: texts, lines of files and of standard input, and mistyped paths.
#include "tasks/input_texts.h"

#include <iostream>
#include <sstream>

#include "tests/support/temporary_files.h"

using namespace tandem;
using Catch::Contains;
using testing::user_error_of;
using Texts = std::vector<std::string>;

namespace {

Texts with_input(const std::string& text, const Texts& inputs) {
  std::istringstream from(text);
  std::streambuf* const own = std::cin.rdbuf(from.rdbuf());
  const Texts texts = tasks::texts_of(inputs);
  std::cin.rdbuf(own);
  return texts;
}

}  // namespace

TEST_CASE("inputs are texts, files of texts, or standard input", "[tasks][text]") {
  const testing::TemporaryDirectory folder;
  const std::string file = folder.write("more.txt", "\xEF\xBB\xBFone\r\n \t\n\nthree");
  CHECK(tasks::texts_of({"a text", file, "and/or", "b.c", "Mr."}) ==
        Texts{"a text", "one", "", "", "three", "and/or", "b.c", "Mr."});
  CHECK(with_input("x y\n\nz", {"a", "-", "b"}) == Texts{"a", "x y", "", "z", "b"});
  CHECK_THAT(user_error_of([&] { with_input("", {"-"}); }), Contains("standard input") && Contains("empty"));
}

TEST_CASE("a text that looks like a missing path is refused", "[tasks][text]") {
  const testing::TemporaryDirectory folder;
  const std::string beside = (folder / "reviews").string();
  for (const std::string& path : {std::string("missing.txt"), std::string("data.csv"), std::string("./more"),
                                  std::string("../a"), std::string("/nowhere/at-all"), beside}) {
    CAPTURE(path);
    CHECK_THAT(user_error_of([&] { tasks::texts_of({path}); }),
               Contains("predict: " + path + ": there is no such file") && Contains("predict RUN -"));
  }
  CHECK(tasks::texts_of({"see missing.txt"}) == Texts{"see missing.txt"});
  for (const char* empty : {"", "  "})
    CHECK_THAT(user_error_of([&] { tasks::texts_of({empty}); }), Contains("an input is empty"));
}
