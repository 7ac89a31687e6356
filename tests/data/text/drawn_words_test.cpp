// Ids of 5,000 drawn words against the libraries tokenizers and tiktoken: tests/golden/subwords.py draws the
// same words, and stores a hash of the ids of each hundred.
#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/text/codec.h"
#include "data/text/unicode.h"
#include "tests/support/paths.h"

using namespace tandem;

namespace {

using Json = nlohmann::ordered_json;

Json golden_of(const char* name) {
  return Json::parse(std::ifstream(test::source_path(std::string("tests/golden/") + name)));
}

// Knuth's linear congruential generator.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t count) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33) % count;
  }

 private:
  std::uint64_t state_;
};

std::vector<std::string> drawn_words(const Json& golden) {
  std::vector<std::vector<std::string>> pools;  // of characters
  for (const Json& pool : golden.at("pools")) {
    const auto text = pool.get<std::string>();
    auto& characters = pools.emplace_back();
    for (std::size_t at = 0; at < text.size(); at += characters.back().size())
      characters.push_back(
          text.substr(at, datasets::first_character(std::string_view(text).substr(at)).bytes));
  }
  const auto ranges = golden.at("ranges").get<std::vector<std::array<std::uint32_t, 2>>>();
  Draw draw(47);
  std::vector<std::string> words(5000);
  for (std::string& word : words) {
    const std::size_t length = 1 + draw.below(24);
    for (std::size_t i = 0; i < length; ++i) {
      if (draw.below(5) > 0) {
        const auto& pool = pools[draw.below(pools.size())];
        word += pool[draw.below(pool.size())];
      } else {
        const auto [first, last] = ranges[draw.below(ranges.size())];
        datasets::append_character(word, static_cast<char32_t>(first + draw.below(last - first)));
      }
    }
  }
  return words;
}

Json description_of(const std::string& name) {
  const Json subwords = golden_of("subwords.json");
  if (name != "byte_bpe")
    return {{"name", "wordpiece"}, {"lower_case", name == "wordpiece"}, {"pieces", subwords.at("pieces")}};
  std::vector<std::string> tokens(subwords.at("vocab").size() + 1, "<|endoftext|>");
  for (const auto& [token, id] : subwords.at("vocab").items()) tokens.at(id.get<std::size_t>()) = token;
  Json merges = Json::array();
  for (const Json& merge : subwords.at("merges"))
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  const std::string_view text = "ab ab";
  Json description =
      datasets::codecs().make("byte_bpe", {{"size", 258}}, {std::span(&text, 1), "the test"})->description();
  description["tokens"] = tokens;
  description["special"] = {tokens.size() - 1};
  description["merges"] = merges;
  return description;
}

}  // namespace

TEST_CASE("ids of many drawn words are those of the libraries", "[wordpiece][byte_bpe]") {
  const Json golden = golden_of("drawn_words.json");
  const std::vector<std::string> words = drawn_words(golden);
  for (std::size_t i = 0; i < 3; ++i) CHECK(words[i] == golden.at("first")[i].get<std::string>());
  for (const auto& [name, values] : golden.at("codecs").items()) {
    const datasets::TextCodecPtr codec = datasets::recall_codec(description_of(name), name);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(codec->encode(words[i]).ids == values.at("first")[i].get<std::vector<std::int32_t>>());
    std::uint64_t hash = 0;
    const auto add = [&](std::int32_t id) {
      hash = (hash ^ static_cast<std::uint32_t>(id)) * 1099511628211U;  // FNV-1a
    };
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i % 100 == 0) hash = 14695981039346656037U;
      for (const std::int32_t id : codec->encode(words[i]).ids) add(id);
      add(-1);
      if (i % 100 != 99) continue;
      INFO(name << ", words " << i - 99 << " to " << i);
      CHECK(fmt::format("{:016x}", hash) == values.at("hashes")[i / 100].get<std::string>());
    }
  }
}
