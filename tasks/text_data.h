// Shared parts of families whose samples are texts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
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

// Calls `read`, which reads a saved description. Throws UserError when it throws an error of JSON.
void read_description(const std::function<void()>& read);

// The codec of a saved description: "codec", or a "tokenizer" with a "vocabulary". Throws UserError for a
// damaged one.
datasets::TextCodecPtr saved_codec(const Json& description);
// Metadata of an exported network: "tandem.words", "tandem.tokenizer", "tandem.codec", "tandem.source_codec",
// "tandem.target_codec", "tandem.max_words" and "tandem.class_names", as far as the description of the data
// has them, and "tandem.context", the most tokens that the model reads.
std::map<std::string, std::string> export_metadata_of(const Json& description, std::optional<Index> context);
// Throws UserError naming `weights` if the codecs differ; `ours` is that of the data `name`.
void require_same_codec(const datasets::TextCodec& theirs, const datasets::TextCodec& ours,
                        const std::string& weights, const std::string& name);
// Whether the codec is a tokenizer with a vocabulary.
bool has_tokenizer(const datasets::TextCodec& codec);
// All words, characters or pieces of a codec.
NamedVocabulary vocabulary_of(const datasets::TextCodec& codec);

// Sets the codec, or tokenizer and vocabulary, of a saved description in the options of a corpus.
template <class CorpusOptions>
void take_saved_words(const Json& description, CorpusOptions& options) {
  options.codec.reset();
  if (description.contains("codec")) {
    options.known_codec = saved_codec(description);
    return;
  }
  read_description([&] {
    options.tokenizer = options::Choice<datasets::tokenizers>(description.at("tokenizer").get<std::string>());
    options.known = std::make_shared<const datasets::Vocabulary>(
        description.at("vocabulary").get<std::vector<std::string>>(), "the description of the data");
  });
}

// A vocabulary of the maximum size, before the text is read.
datasets::Vocabulary assumed_words(Index size);

// Throws UserError naming `weights` if the words differ from those of the data `name`.
void require_same_words(const std::vector<std::string>& theirs, const std::vector<std::string>& ours,
                        const std::string& weights, const std::string& name);

}  // namespace tandem::tasks
