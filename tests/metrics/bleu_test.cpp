// BLEU and its words, against sacrebleu 2.6.0 (tests/golden/bleu.py).
#include "metrics/bleu.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/paths.h"

using namespace tandem;
using metrics::bleu_score;
using metrics::bleu_signature;
using metrics::bleu_statistics;
using metrics::bleu_tokens;
using metrics::BleuOptions;
using metrics::BleuScore;
using metrics::BleuSmoothing;
using metrics::BleuStatistics;
using metrics::BleuTokens;
using metrics::corpus_bleu;
using nlohmann::json;
using Texts = std::vector<std::string>;

namespace {

constexpr double kMargin = 1e-9;

const json& golden() {
  static const json file = json::parse(std::ifstream(test::source_path("tests/golden/bleu.json")));
  return file;
}

std::string joined(const Texts& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string split_13a(const std::string& text) { return joined(bleu_tokens(text, BleuTokens::v13a)); }

BleuSmoothing smoothing_of(const std::string& name) {
  if (name == "none") return BleuSmoothing::none;
  if (name == "floor") return BleuSmoothing::floor;
  return name == "add-k" ? BleuSmoothing::add_k : BleuSmoothing::exp;
}

BleuOptions options_of(const json& row) {
  BleuOptions options{.smoothing = smoothing_of(row.at("smooth")), .effective_order = row.at("effective")};
  if (!row.at("value").is_null()) options.smoothing_value = row.at("value").get<double>();
  if (row.contains("tokens") && row.at("tokens") == "none") options.tokens = BleuTokens::none;
  return options;
}

// Lengths, matches, totals.
std::vector<std::int64_t> listed(const BleuStatistics& counts) {
  std::vector<std::int64_t> list{counts.hypothesis_length, counts.reference_length};
  list.insert(list.end(), counts.matches.begin(), counts.matches.end());
  list.insert(list.end(), counts.totals.begin(), counts.totals.end());
  return list;
}

// The references of sentence i of the file and of those behind it.
Texts references_of(std::size_t i, std::size_t count) {
  const json& pairs = golden().at("pairs");
  Texts references;
  for (std::size_t k = 0; k < count; ++k) references.push_back(pairs.at((i + k) % pairs.size()).at(1));
  return references;
}

double score_of(const std::string& hypothesis, const Texts& references, const BleuOptions& options = {}) {
  return bleu_score(bleu_statistics(hypothesis, references, options.tokens), options).score;
}

std::string utf8(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return std::string(1, static_cast<char>(value)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) return byte(0xc0 | c >> 6) + byte(0x80 | (c & 0x3f));
  if (c < 0x10000) return byte(0xe0 | c >> 12) + byte(0x80 | (c >> 6 & 0x3f)) + byte(0x80 | (c & 0x3f));
  return byte(0xf0 | c >> 18) + byte(0x80 | (c >> 12 & 0x3f)) + byte(0x80 | (c >> 6 & 0x3f)) +
         byte(0x80 | (c & 0x3f));
}

}  // namespace

TEST_CASE("words by 13a", "[bleu]") {
  CHECK(split_13a("3.5%, to $1,000.50.") == "3.5 % , to $ 1,000.50 .");
  CHECK(split_13a("well-known e.g. 2-3 (really)!") == "well-known e . g . 2 - 3 ( really ) !");
  CHECK(split_13a("don't C++/Rust-2021: v1.2-3.") == "don't C + + / Rust-2021 : v1.2 - 3 .");
  CHECK(split_13a("3.a a.3 ,5 5,") == "3 . a a . 3 , 5 5 ,");
  CHECK(split_13a("10,5 mm – gut…") == "10,5 mm – gut…");
  CHECK(split_13a("&amp;lt;&amp;quot;&gt;") == "< & quot ; >");
  CHECK(split_13a("cut-\nin two\nlines<skipped>-\n") == "cutin two lines-");
  CHECK(bleu_tokens("a.b \t c,", BleuTokens::none) == Texts{"a.b", "c,"});
  CHECK(bleu_tokens(" \n\xc2\xa0", BleuTokens::v13a).empty());
  // What is no UTF-8 stays as it is: half a white space, a lead byte at the end.
  CHECK(bleu_tokens("\xc2 \xe2\x80", BleuTokens::v13a) == Texts{"\xc2", "\xe2\x80"});
}

TEST_CASE("words by 13a of 500 pairs agree with sacrebleu's", "[bleu]") {
  for (const json& pair : golden().at("pairs")) {
    CHECK(split_13a(pair.at(0)) == pair.at(2));
    CHECK(split_13a(pair.at(1)) == pair.at(3));
  }
}

TEST_CASE("words are separated by Unicode's white space", "[bleu]") {
  const std::vector<std::uint32_t> spaces = golden().at("spaces");
  for (std::uint32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const bool is_space = std::find(spaces.begin(), spaces.end(), c) != spaces.end();
    const std::size_t words = bleu_tokens("a" + utf8(c) + "b", BleuTokens::none).size();
    if (words != (is_space ? 2U : 1U)) FAIL_CHECK("character " << c << " gives " << words << " words");
  }
}

TEST_CASE("statistics and scores of single sentences agree with sacrebleu's", "[bleu]") {
  const json& pairs = golden().at("pairs");
  std::vector<BleuOptions> options;
  for (const json& row : golden().at("options")) options.push_back(options_of(row));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    CAPTURE(i);
    const std::string hypothesis = pairs[i].at(0);
    const BleuStatistics counts = bleu_statistics(hypothesis, references_of(i, 1));
    CHECK(json(listed(counts)) == pairs[i].at(4));
    CHECK(json(listed(bleu_statistics(hypothesis, references_of(i, 3)))) == pairs[i].at(5));
    for (std::size_t k = 0; k < options.size(); ++k) {
      CAPTURE(k);
      CHECK(bleu_score(counts, options[k]).score ==
            Approx(pairs[i].at(6).at(k).get<double>()).margin(kMargin).epsilon(0));
    }
  }
}

TEST_CASE("scores of corpora agree with sacrebleu's", "[bleu]") {
  for (const json& row : golden().at("corpora")) {
    CAPTURE(row.dump());
    const BleuOptions options = options_of(row);
    const bool varies = row.at("references") == "var";
    Texts hypotheses;
    std::vector<Texts> references;
    for (std::size_t i = row.at("first"); i < row.at("last").get<std::size_t>(); ++i) {
      hypotheses.push_back(golden().at("pairs").at(i).at(0));
      references.push_back(references_of(i, varies ? 1 + i % 3 : row.at("references").get<std::size_t>()));
    }
    const BleuScore found = corpus_bleu(hypotheses, references, options);
    CHECK(found.score == Approx(row.at("score").get<double>()).margin(kMargin).epsilon(0));
    CHECK(found.brevity_penalty == Approx(row.at("bp").get<double>()).epsilon(1e-12));
    CHECK(found.statistics.hypothesis_length == row.at("sys_len"));
    CHECK(found.statistics.reference_length == row.at("ref_len"));
    for (std::size_t n = 0; n < metrics::kBleuOrders; ++n)
      CHECK(found.precisions[n] ==
            Approx(row.at("precisions").at(n).get<double>()).margin(kMargin).epsilon(0));
    const auto count = varies ? std::nullopt : std::optional<Index>(row.at("references").get<Index>());
    CHECK(bleu_signature(options, count) == row.at("signature"));
  }
}

TEST_CASE("BLEU of known pairs", "[bleu]") {
  const auto approx = [](double value) { return Approx(value).margin(5e-7).epsilon(0); };
  const BleuOptions none{.smoothing = BleuSmoothing::none}, floor{.smoothing = BleuSmoothing::floor},
      add_k{.smoothing = BleuSmoothing::add_k}, effective{.effective_order = true};
  const Texts hypotheses{"the cat sat on the mat .", "there is a dog in the garden ."};
  const std::vector<Texts> references{{"the cat is on the mat ."}, {"a dog is in the garden ."}};
  for (const BleuOptions& any : {BleuOptions(), none, floor, effective})
    CHECK(corpus_bleu(hypotheses, references, any).score == approx(45.563112));
  CHECK(corpus_bleu(hypotheses, references, add_k).score == approx(51.371133));
  const BleuStatistics counts = corpus_bleu(hypotheses, references).statistics;
  CHECK(counts.matches == std::array<std::int64_t, 4>{13, 8, 4, 2});
  CHECK(counts.totals == std::array<std::int64_t, 4>{15, 13, 11, 9});

  const std::string the = "the the the the the the the";
  CHECK(score_of(the, {"the cat is on the mat"}) == approx(7.809850));
  CHECK(score_of(the, {"the cat is on the mat"}, none) == 0.0);
  CHECK(score_of(the, {"the cat is on the mat"}, floor) == approx(3.928147));
  CHECK(score_of(the, {"the cat is on the mat"}, add_k) == approx(19.205613));
  CHECK(score_of("a b", {"a b c d"}) == 0.0);
  CHECK(score_of("a b", {"a b c d"}, effective) == approx(36.787944));
  CHECK(score_of("a b c d", {"a x c y"}) == approx(18.995892));
  CHECK(score_of("a b c d e", {"a b c d", "a b c d e f"}) == approx(100.0));
  CHECK(bleu_statistics("a b c d e", Texts{"a b c d e f", "a b c d"}).reference_length == 4);
  CHECK(score_of("Hello, world! It costs 3.5%.", {"Hello world! It costs 3.5 %."}) == approx(75.062385));
  CHECK(score_of("", {"a b"}) == 0.0);
  CHECK(bleu_score(bleu_statistics("", Texts{"a b"})).brevity_penalty == 0.0);
  CHECK(score_of("x", {"y"}) == 0.0);
}

TEST_CASE("BLEU of nothing, and what cannot be scored", "[bleu]") {
  const BleuScore empty = corpus_bleu({}, {});
  CHECK(empty.score == 0.0);
  CHECK(empty.brevity_penalty == 1.0);
  CHECK(score_of("a b", {""}) == 0.0);

  CHECK(bleu_signature({}) == "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
  using Catch::Matchers::Contains;
  CHECK_THROWS_AS(bleu_statistics("a", {}), UserError);
  CHECK_THROWS_WITH(corpus_bleu(Texts{"a", "b"}, std::vector<Texts>{{"a"}}),
                    "[bleu] every hypothesis needs references, got 2 hypotheses and references for 1");
  for (const double value : {-0.1, std::numeric_limits<double>::quiet_NaN(), HUGE_VAL}) {
    const BleuOptions options{.smoothing = BleuSmoothing::floor, .smoothing_value = value};
    CHECK_THROWS_WITH(bleu_score({}, options), Contains("a finite number of at least 0"));
    CHECK_THROWS_AS(bleu_signature(options), UserError);
  }
}
