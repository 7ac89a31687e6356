// Vocabulary: the ids of words, in the order of their frequency.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/options/schema.h"
#include "core/shape.h"

namespace tandem::datasets {

inline constexpr Index kMaxVocabulary = Index{1} << 24;

// Lets a map be searched by string_view without a copy.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

using WordCounts = TextMap<std::int64_t>;
// Counts a word without a copy if it is known.
void add_word(std::string_view word, WordCounts& counts);
void count_words(std::span<const std::string> words, WordCounts& counts);

struct VocabularyOptions {
  Index size = 10000;   // largest size, the two special words included; 0: unbounded
  Index min_count = 1;  // words with fewer occurrences are unknown
  static const options::Schema& schema();
};

// Ids of words, and the number of those that are unknown.
struct EncodedText {
  std::vector<std::int32_t> ids;
  Index unknown = 0;
};

class Vocabulary {
 public:
  // Special words of every vocabulary: 0 is any unknown word, 1 the end of a line or document.
  static constexpr std::int32_t kUnknown = 0, kEnd = 1;
  static constexpr std::string_view kUnknownWord = "<unk>", kEndWord = "<end>";

  Vocabulary() = default;  // empty, to be assigned
  // The most frequent words; ties are ordered by bytes. A text with fewer words gives a smaller vocabulary.
  // "<unk>" and "<end>" in a text are the special words. Throws UserError in the name of `where` on a size of
  // 1 or 2, without a word, or when no word occurs min_count times.
  Vocabulary(const WordCounts& counts, const VocabularyOptions& options,
             std::string_view where = "vocabulary");
  // The result of `words`. Throws UserError in the name of `where` unless it begins with the two special
  // words, has another one, and all are distinct and not empty.
  Vocabulary(std::vector<std::string> words, std::string_view where);

  Index size() const { return static_cast<Index>(words_.size()); }
  const std::vector<std::string>& words() const { return words_; }
  const std::string& word(std::int32_t id) const;  // throws UserError for an unknown id
  std::int32_t id_of(std::string_view word) const;
  bool has(std::string_view word) const { return ids_.contains(word); }

  EncodedText encode(std::span<const std::string> words) const;
  std::vector<std::string> decode(std::span<const std::int32_t> ids) const;

  // JSON list of the words. from_json also throws UserError in the name of `where` for other JSON.
  std::string to_json() const;
  static Vocabulary from_json(const std::string& text, const std::string& where);

 private:
  std::vector<std::string> words_;
  TextMap<std::int32_t> ids_;
};

}  // namespace tandem::datasets
