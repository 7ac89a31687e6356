// Vocabulary: the pieces of a text that have a number, in the order of their frequency.
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

// So that a map is searched for parts of a text without a copy of them.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

using WordCounts = TextMap<std::int64_t>;
void count_words(std::span<const std::string> words, WordCounts& counts);

struct VocabularyOptions {
  Index size = 10000;   // at most so many, the two special ones included; 0: no bound
  Index min_count = 1;  // words that come less often are unknown
  static const options::Schema& schema();
};

// Numbers of words, and how many of them stand for words that have none.
struct EncodedText {
  std::vector<std::int32_t> ids;
  Index unknown = 0;
};

class Vocabulary {
 public:
  // Words of every vocabulary: 0 stands for every word that has no number, 1 for the end of a line or
  // document.
  static constexpr std::int32_t kUnknown = 0, kEnd = 1;
  static constexpr std::string_view kUnknownWord = "<unk>", kEndWord = "<end>";

  Vocabulary() = default;  // of no use
  // The most frequent words; of equally frequent ones those first whose bytes are lower. A text with fewer
  // words than asked for gives a smaller vocabulary. "<unk>" and "<end>" in a text are the special ones.
  // Throws UserError in the name of `where` on a size of 1 or 2, without a word, or where none comes often
  // enough.
  Vocabulary(const WordCounts& counts, const VocabularyOptions& options,
             std::string_view where = "vocabulary");
  // As `words` gave them. Throws UserError in the name of `where` unless the two special ones come first,
  // something follows, and no word is empty or there twice.
  Vocabulary(std::vector<std::string> words, std::string_view where);

  Index size() const { return static_cast<Index>(words_.size()); }
  const std::vector<std::string>& words() const { return words_; }
  const std::string& word(std::int32_t id) const;  // throws UserError when there is none of that number
  std::int32_t id_of(std::string_view word) const;
  bool has(std::string_view word) const { return ids_.contains(word); }

  EncodedText encode(std::span<const std::string> words) const;
  std::vector<std::string> decode(std::span<const std::int32_t> ids) const;

  // A list of JSON, and the vocabulary of one; `where` says whose it is. Throws UserError as above, too.
  std::string to_json() const;
  static Vocabulary from_json(const std::string& text, const std::string& where);

 private:
  std::vector<std::string> words_;
  TextMap<std::int32_t> ids_;
};

}  // namespace tandem::datasets
