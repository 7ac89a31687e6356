// Text-classification task: see family.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/text/sequence_source.h"
#include "models/text_encoder.h"
#include "tasks/classification/scores.h"
#include "tasks/text_classification/data.h"
#include "tasks/text_task.h"

namespace tandem::tasks {

// Batches are texts of similar length (data/text/sequence_source.h). With `drop_last`, or a requested batch
// size, every epoch drops the last texts so that all batches are full.
class TextClassification final
    : public TextTask<TextClassificationOptions, LabelledTextData, models::TextEncoder> {
 public:
  // Throws options::OptionError when the model is not a text classifier.
  TextClassification(const TextClassificationOptions& options, const Context& context,
                     std::shared_ptr<const LabelledTextData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  std::map<std::string, std::string> undefined_figures(const std::string&) const override {
    return ClassificationScores::undefined_figures(loss_->classes());
  }
  bool keeps_details() const override { return options_.eval.confusion; }

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::string samples_are() const override { return "texts"; }
  std::vector<Signature> signatures() override { return {signature(data_->max_words())}; }
  // "tandem.words" and "tandem.tokenizer" or "tandem.codec", "tandem.max_words", "tandem.class_names"; and
  // "tandem.context" if the model has one.
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override {
    return {"inputs", "--top", "--logits", "--json"};
  }
  void predict(const PredictRequest& request, Device device) override;

 private:
  // Steps of the longest batch: words, the end of the text and padding.
  Index longest_batch() const;
  datasets::SourcePtr source_of(const std::string& split, Device device) const override;
  std::shared_ptr<const datasets::SequenceSource> training_texts(Device device, Index batch_size) const;

  std::unique_ptr<const ClassificationLoss> loss_;
};

}  // namespace tandem::tasks
