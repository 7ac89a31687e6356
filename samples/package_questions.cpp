#include "samples/package_questions.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "samples/package_descriptions.h"

namespace tandem::datasets {

namespace {

constexpr std::size_t kPackages = 4;  // in a context
constexpr std::size_t kWords = 18;    // of a description
constexpr std::string_view kParagraph = " . ";

struct TitledPackage {
  std::string name, title, begin;
};

// The first words of a text, separated by single spaces.
std::string first_words(std::string_view text, std::size_t count) {
  std::string words;
  for (std::size_t at = 0; count > 0 && (at = text.find_first_not_of(' ', at)) != text.npos; --count) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (!words.empty()) words += ' ';
    words += text.substr(at, end - at);
    at = end;
  }
  return words;
}

TitledPackage titled(const PackageDescription& record) {
  const std::string_view text = record.text;
  const std::size_t title = std::min(text.find(kParagraph), text.size());
  const std::string_view rest = text.substr(std::min(title + kParagraph.size(), text.size()));
  return {.name = record.package,
          .title = first_words(text.substr(0, title), kWords),
          .begin = first_words(rest.substr(0, rest.find(kParagraph)), kWords)};
}

// Packages of a context are at equal distances in the list, so that they differ; their order changes from one
// context to the next.
Questions questions_about(const std::vector<TitledPackage>& packages) {
  Questions all;
  const std::size_t contexts = packages.size() / kPackages;
  const auto member = [&](std::size_t context, std::size_t i) -> const TitledPackage& {
    return packages[context % contexts + (i + context) % kPackages * contexts];
  };
  for (std::size_t c = 0; c < contexts; ++c) {
    std::string context;
    std::array<std::size_t, kPackages> places{};
    for (std::size_t i = 0; i < kPackages; ++i) {
      places[i] = context.size();
      context += fmt::format("{}: {}\n", member(c, i).name, member(c, i).begin);
    }
    const auto ask = [&](const TitledPackage& package, std::vector<std::string> answers, std::size_t at) {
      all.questions.push_back({.id = std::to_string(all.questions.size()),
                               .text = fmt::format("Which package is {}?", package.title),
                               .context = c,
                               .answers = std::move(answers),
                               .answer_at = at});
    };
    for (std::size_t i = 0; i < kPackages; ++i) ask(member(c, i), {member(c, i).name}, places[i]);
    if (contexts > 1) ask(member(c + 1, 0), {}, 0);
    all.contexts.push_back(std::move(context));
  }
  return all;
}

}  // namespace

QuestionParts package_questions(const std::filesystem::path& path) {
  std::vector<TitledPackage> train, validation, test;
  for (const PackageDescription& record : read_package_descriptions(path)) {
    TitledPackage package = titled(record);
    if (package.title.empty() || package.begin.empty()) continue;
    auto& part = record.split == TextSplit::train        ? train
                 : record.split == TextSplit::validation ? validation
                                                         : test;
    part.push_back(std::move(package));
  }
  require(train.size() >= kPackages && test.size() >= kPackages, path.string(),
          "has {} packages with a title and a description for training and {} for test; each part needs at "
          "least {}",
          train.size(), test.size(), kPackages);
  return {.train = questions_about(train),
          .validation = questions_about(validation),
          .test = questions_about(test)};
}

QuestionRegistry::Entry package_questions_entry() {
  return QuestionRegistry::entry<PackageTextOptions>(
      "package_questions",
      "questions for the package that has a given title, from descriptions of Debian's packages",
      PackageTextOptions::schema(), [](const PackageTextOptions& own) {
        return package_questions(own.path ? std::filesystem::path(*own.path)
                                          : fetched_package_descriptions());
      });
}

}  // namespace tandem::datasets
