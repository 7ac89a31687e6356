// Vocabularies of data: the names that its numbers stand for, in the order in which a model's tables have
// rows for them (models/word_tables.h).
#pragma once

#include <string>
#include <vector>

namespace tandem::tasks {

struct NamedVocabulary {
  std::string what;   // of messages: "words", "source pieces", "classes"
  std::string codec;  // how a text becomes these; vocabularies of another codec have no word in common
  std::vector<std::string> words;
};

// A base of data beside Data.
class HasVocabularies {
 public:
  virtual ~HasVocabularies() = default;
  virtual std::vector<NamedVocabulary> vocabularies() const = 0;
};

}  // namespace tandem::tasks
