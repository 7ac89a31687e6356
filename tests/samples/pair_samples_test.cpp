// Pair corpora of Debian's packages: their own codecs, and the files that are installed.
#include "samples/cmu_dictionary.h"
#include "samples/office_help.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;
using datasets::CodecChoice;
using datasets::PairCorpus;
using datasets::PairOptions;
using datasets::PairTexts;

TEST_CASE("sizes before anything is read", "[pairs]") {
  const auto described = [](std::string_view name, const options::Given& own, const PairOptions& common) {
    return datasets::described_codecs({options::Choice<datasets::pair_corpora>(name, own), common});
  };
  const auto words = described("cmu_dictionary", {}, {});
  REQUIRE(words);
  CHECK(words->source->size() == datasets::kCmuCharacters);
  CHECK(words->target->size() == datasets::kCmuPhonemes);
  const auto help = described("office_help", {}, {});
  REQUIRE(help);
  CHECK(help->shared());
  CHECK(help->source->size() == 8000);
  CHECK_FALSE(described("office_help", {}, {.codec = CodecChoice("words", {{"size", 0}})}));
}

TEST_CASE("the dictionary that Debian installs", "[pairs][installed]") {
  if (!std::filesystem::exists(datasets::installed_cmu_dictionary())) {
    WARN("skipped: festlex-cmu is not installed");
    return;
  }
  const PairCorpus corpus = datasets::open_pairs("cmu_dictionary");
  CHECK(corpus.codecs.source->size() == datasets::kCmuCharacters);
  CHECK(corpus.codecs.target->size() == datasets::kCmuPhonemes);
  CHECK(corpus.train.unknown_source + corpus.train.unknown_target == 0);
  CHECK(corpus.test.unknown_target == 0);
  const Index sources = corpus.validation.size() + corpus.test.size();
  CHECK(sources > 105664 / 10 - 400);  // of the file's words, a tenth
  CHECK(sources < 105664 / 10 + 400);
  CHECK(corpus.train.size() + sources >= 105664);
  CHECK(corpus.train.size() + sources <= 105664 + 168);
}

TEST_CASE("the help that Debian installs", "[pairs][installed]") {
  if (!std::filesystem::exists(datasets::installed_office_help() / "de/text") ||
      !std::filesystem::exists(datasets::installed_office_help() / "en-US/text")) {
    WARN("skipped: libreoffice-help-de and libreoffice-help-en-us are not installed");
    return;
  }
  const PairTexts texts = datasets::read_office_help({});
  CHECK(texts.train.size() > 25000);
  CHECK(texts.validation.size() > 800);
  CHECK(texts.test.size() > 800);
  for (const auto* part : {&texts.train, &texts.validation, &texts.test})
    for (const datasets::TextPair& pair : *part) {
      REQUIRE_FALSE(pair.source.empty());
      REQUIRE(pair.source.find("<span") == std::string::npos);
    }
}
