// Text as numbers: words, a vocabulary, and the descriptions of Debian's packages as a corpus.
//
// A word is a run of letters, digits and apostrophes, in lower case; "." ends a sentence and is a word of its
// own; everything else separates. Bytes beyond ASCII count as letters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"

namespace tandem::datasets {

std::vector<std::string> words_of(std::string_view text);

// The most frequent words of a text; 0 stands for every other one, 1 for the end of a document.
class Vocabulary {
 public:
  static constexpr std::int32_t kUnknown = 0, kEnd = 1;

  // The `size` - 2 most frequent words; of equally frequent ones those that come first in the alphabet.
  Vocabulary(const std::vector<std::vector<std::string>>& documents, Index size);

  Index size() const { return static_cast<Index>(words_.size()); }
  std::int32_t number_of(const std::string& word) const;
  const std::string& word(std::int32_t number) const { return words_[static_cast<std::size_t>(number)]; }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

struct TextCorpus {
  Vocabulary vocabulary;
  // Documents one after the other, each followed by Vocabulary::kEnd. Every 20th document is for validation.
  std::vector<std::int32_t> train, validation;
};

inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 28;

// The English descriptions of an apt translation index ("Package:", "Description-en:", lines that begin with
// a space), each one a document, equal ones once. Throws UserError naming the file when it is missing, too
// large, or has no description, and when `vocabulary` is below 3.
TextCorpus read_package_descriptions(const std::filesystem::path& path, Index vocabulary);

}  // namespace tandem::datasets
