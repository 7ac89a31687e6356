// Vocabularies of data: names of its ids, in the row order of a model's tables (models/word_tables.h).
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

struct NamedVocabulary {
  std::string what;   // for messages: "words", "source pieces", "classes"
  std::string codec;  // codec of texts; vocabularies of different codecs share no words
  std::vector<std::string> words;
};

// Base class beside Data.
class HasVocabularies {
 public:
  virtual ~HasVocabularies() = default;
  virtual std::vector<NamedVocabulary> vocabularies() const = 0;
};

}  // namespace tandem::tasks
