// Questions made of package descriptions.
#include "samples/package_questions.h"

#include <fmt/core.h>

#include <catch2/catch.hpp>

#include "tests/support/temporary_files.h"

using namespace tandem;

using Catch::Contains;
using testing::TemporaryDirectory;
using testing::user_error_of;

namespace {

std::string record(const std::string& package, const std::string& source) {
  return fmt::format(
      "Package: {0}\nSource: {1}\nDescription-en: title of {0}\n What  {0}\n is like.\n .\n More.\n\n",
      package, source);
}

}  // namespace

// CRC-32 modulo 20 (zlib.crc32 of Python): linux 3, apt 18, tau 19.
TEST_CASE("titles of packages are questions about their descriptions", "[text][questions]") {
  const TemporaryDirectory folder;
  std::string records = "Package: bare\nSource: linux\nDescription-en: title alone\n\n";
  for (int i = 0; i < 9; ++i) records += record(fmt::format("a{}", i), "linux");
  for (int i = 0; i < 5; ++i) records += record(fmt::format("t{}", i), "tau");
  const datasets::QuestionParts parts = datasets::package_questions(folder.write("descriptions", records));
  CHECK(parts.validation.size() == 0);
  CHECK(parts.test.size() == 4);  // of one context, about which no other can be asked
  const datasets::Questions& train = parts.train;
  CHECK(train.contexts ==
        std::vector<std::string>{"a0: What a0 is like.\na2: What a2 is like.\na4: What a4 is "
                                 "like.\na6: What a6 is like.\n",
                                 "a3: What a3 is like.\na5: What a5 is like.\na7: What a7 is "
                                 "like.\na1: What a1 is like.\n"});
  REQUIRE(train.size() == 10);
  for (const datasets::Question& question : train.questions) {
    CHECK_THAT(question.text, Catch::StartsWith("Which package is title of a"));
    const std::string name = question.text.substr(question.text.size() - 3, 2);
    const std::string& context = train.contexts[question.context];
    if (question.answers.empty()) {
      CHECK(context.find(name) == std::string::npos);
      continue;
    }
    CHECK(question.answers == std::vector<std::string>{name});
    CHECK(context.compare(question.answer_at, 3, name + ":") == 0);
  }
  CHECK(std::ranges::count_if(train.questions, [](const auto& q) { return q.answers.empty(); }) == 2);
  CHECK_THAT(user_error_of([&] { datasets::package_questions(folder.write("few", record("a", "linux"))); }),
             Contains("has 1 packages with a title and a description for training and 0 for test"));
  CHECK_THAT(user_error_of([&] { datasets::package_questions(folder / "absent"); }), Contains("./run data"));
}
