// Data of a text classifier: texts as word ids, the vocabulary, and the classes.
#pragma once

#include <memory>

#include "data/text/labelled_registry.h"
#include "tasks/text_classification/options.h"
#include "tasks/text_data.h"

namespace tandem::tasks {

class LabelledTextData final : public TextData<datasets::LabelledCorpus> {
 public:
  // `words_of`: see Context.
  static DataPtr open(const TextClassificationOptions& options, const Json* words_of = nullptr);
  // Without reading if the classes are known and vocabulary or codec have a maximum size, which is assumed.
  static DataPtr describe(const TextClassificationOptions& options, const Json* words_of = nullptr);
  // From description(): words and classes, no text. Of the description of a masked language model: the codec,
  // no classes.
  static DataPtr recall(const Json& description);

  Json description() const override;
  // Throws UserError unless words and classes are the same.
  void require_like(const Json& saved, const std::string& weights) const override;
  std::optional<ReorderedData> in_order_of(const Json& saved) const override;
  // Words, and classes.
  std::vector<NamedVocabulary> vocabularies() const override;

  const datasets::TextCodec& codec() const { return *corpus_.codec; }
  const std::vector<std::string>& classes() const { return corpus_.classes; }
  Index max_words() const { return max_words_; }
  // Encodes a text for the model.
  datasets::EncodedText encode(std::string_view text) const {
    return datasets::encode_text(text, codec(), max_words_);
  }

 private:
  LabelledTextData() = default;
  // All but the corpus.
  static std::shared_ptr<LabelledTextData> named(const datasets::LabelledTextOptions& options);

  Index max_words_ = 0;
};

}  // namespace tandem::tasks
