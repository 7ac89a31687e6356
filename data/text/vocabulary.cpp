#include "data/text/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/options/check.h"
#include "core/printable.h"
#include "files/json_text.h"

namespace tandem::datasets {

namespace {

bool special(std::string_view word) {
  return word == Vocabulary::kUnknownWord || word == Vocabulary::kEndWord;
}

}  // namespace

const options::Schema& VocabularyOptions::schema() {
  static const options::Schema schema =
      options::Describe<VocabularyOptions>()
          .key("size", &VocabularyOptions::size,
               "largest number of words, the most frequent of the training text; 0: all",
               {.min = 0, .max = static_cast<double>(kMaxVocabulary)})
          .key("min_count", &VocabularyOptions::min_count, "words with fewer occurrences are unknown",
               {.min = 1})
          .rule("size", "must be 0 or at least 3: \"<unk>\" and \"<end>\" take two places",
                [](const VocabularyOptions& o) { return o.size == 0 || o.size >= 3; })
          .short_key("size");
  return schema;
}

void add_word(std::string_view word, WordCounts& counts) {
  const auto found = counts.find(word);
  if (found != counts.end()) {
    ++found->second;
  } else {
    counts.emplace(word, 1);
  }
}

void count_words(std::span<const std::string> words, WordCounts& counts) {
  for (const std::string& word : words) ++counts[word];
}

Vocabulary::Vocabulary(const WordCounts& counts, const VocabularyOptions& options, std::string_view where) {
  options::require_sound("vocabulary", VocabularyOptions::schema(), &options);
  std::vector<std::pair<std::int64_t, std::string_view>> order;
  for (const auto& [word, count] : counts)
    if (!special(word)) order.emplace_back(-count, word);
  require(!order.empty(), where, "the text has no word");
  std::ranges::sort(order);
  require(-order[0].first >= options.min_count, where,
          "no word occurs {} times (min_count); the most frequent, \"{}\", occurs {} times; set min_count to "
          "at most that",
          options.min_count, printable(order[0].second), -order[0].first);
  words_ = {std::string(kUnknownWord), std::string(kEndWord)};
  const Index most = options.size == 0 ? kMaxVocabulary : options.size;
  for (const auto& [count, word] : order) {
    if (size() == most || -count < options.min_count) break;
    words_.emplace_back(word);
  }
  for (std::size_t i = 0; i < words_.size(); ++i) ids_.emplace(words_[i], static_cast<std::int32_t>(i));
}

Vocabulary::Vocabulary(std::vector<std::string> words, std::string_view where) : words_(std::move(words)) {
  require(size() >= 3 && size() <= kMaxVocabulary, where, "a vocabulary of {} words, expected 3 to {}",
          size(), kMaxVocabulary);
  require(words_[0] == kUnknownWord && words_[1] == kEndWord, where,
          "the vocabulary begins with \"{2}\" and \"{3}\", expected {0} and {1}", kUnknownWord, kEndWord,
          printable(words_[0]), printable(words_[1]));
  for (std::size_t i = 0; i < words_.size(); ++i) {
    require(!words_[i].empty(), where, "word {} of the vocabulary is empty", i);
    const auto [found, fresh] = ids_.emplace(words_[i], static_cast<std::int32_t>(i));
    require(fresh, where, "words {} and {} of the vocabulary are both \"{}\"", found->second, i,
            printable(words_[i]));
  }
}

const std::string& Vocabulary::word(std::int32_t id) const {
  require(id >= 0 && id < size(), "vocabulary", "there is no word {} among {}", id, size());
  return words_[static_cast<std::size_t>(id)];
}

std::int32_t Vocabulary::id_of(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? kUnknown : found->second;
}

EncodedText Vocabulary::encode(std::span<const std::string> words) const {
  EncodedText text;
  text.ids.reserve(words.size());
  for (const std::string& word : words) {
    text.ids.push_back(id_of(word));
    text.unknown += text.ids.back() == kUnknown;
  }
  return text;
}

std::vector<std::string> Vocabulary::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::string> words;
  words.reserve(ids.size());
  for (const std::int32_t id : ids) words.push_back(word(id));
  return words;
}

std::string Vocabulary::to_json() const { return files::json_text(nlohmann::json(words_)); }

Vocabulary Vocabulary::from_json(const std::string& text, const std::string& where) {
  const auto list = files::parse_json<nlohmann::json>(
      text, where, "the vocabulary",
      {.depth = 1, .keys = 0, .items = static_cast<std::size_t>(kMaxVocabulary)});
  require(list.is_array(), where, "the vocabulary is no list of words");
  std::vector<std::string> words;
  words.reserve(list.size());
  for (const auto& word : list) {
    require(word.is_string(), where, "word {} of the vocabulary is no string", words.size());
    words.push_back(word.get<std::string>());
  }
  return Vocabulary(std::move(words), where);
}

}  // namespace tandem::datasets
