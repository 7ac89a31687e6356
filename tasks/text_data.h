// Shared parts of families whose samples are texts.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/text/codec.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Data with a corpus of the splits train, validation and test.
template <class Corpus>
class TextData : public Data {
 public:
  Index training_samples() const override { return training_samples_; }
  const std::string& name() const { return name_; }
  const Corpus& corpus() const { return corpus_; }
  bool is_open() const { return corpus_.train.size() > 0; }
  // "train", "validation" or "test". Throws UserError for a missing split, InternalError when the data is
  // only described.
  const auto& split(const std::string& which) const {
    ensure(is_open(), "data", "{} is only described", name_);
    const auto& found = which == "train"        ? corpus_.train
                        : which == "validation" ? corpus_.validation
                                                : corpus_.test;
    require(found.size() > 0, "", "{} has no {} split", name_, which);
    return found;
  }

 protected:
  std::string name_;
  Corpus corpus_;
  Index training_samples_ = 0;
};

// The same, as ids of words.
template <class Corpus>
class WordData : public TextData<Corpus> {
 public:
  const datasets::Vocabulary& vocabulary() const { return this->corpus_.vocabulary; }
  const datasets::Tokenizer& tokenizer() const { return *tokenizer_; }
  std::vector<NamedVocabulary> vocabularies() const override {
    return {{tokenizer_->of_characters() ? "characters" : "words", tokenizer_name_, vocabulary().words()}};
  }

 protected:
  void set_tokenizer(const options::Choice<datasets::tokenizers>& tokenizer) {
    tokenizer_name_ = tokenizer.name();
    tokenizer_ = datasets::tokenizers().make(tokenizer);
  }

  std::string tokenizer_name_;
  datasets::TokenizerPtr tokenizer_;
};

// The options of a corpus with the tokenizer and the words of a description of DataT, if given.
template <class DataT, class Options>
Options with_words(Options options, const Json* description) {
  if (!description) return options;
  const DataPtr then = DataT::recall(*description);
  const auto& like = static_cast<const DataT&>(*then);
  options.common.tokenizer =
      options::Choice<datasets::tokenizers>(description->at("tokenizer").get<std::string>());
  options.common.known = std::make_shared<const datasets::Vocabulary>(like.vocabulary());
  return options;
}

// A vocabulary of the maximum size, before the text is read.
datasets::Vocabulary assumed_words(Index size);

// Throws UserError naming `weights` if the words differ from those of the data `name`.
void require_same_words(const std::vector<std::string>& theirs, const std::vector<std::string>& ours,
                        const std::string& weights, const std::string& name);

// The codec "codec" of a saved description. Throws UserError for a damaged one.
datasets::TextCodecPtr saved_codec(const Json& description);
// Throws UserError naming `weights` if the codecs differ; `ours` is that of the data `name`.
void require_same_codec(const datasets::TextCodec& theirs, const datasets::TextCodec& ours,
                        const std::string& weights, const std::string& name);
// All pieces of a codec.
NamedVocabulary vocabulary_of(const datasets::TextCodec& codec);

// Calls `read`, which reads a saved description. Throws UserError when it throws an error of JSON.
void read_description(const std::function<void()>& read);

}  // namespace tandem::tasks
