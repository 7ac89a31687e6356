// Question-answering task: see tasks/families.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/span_model.h"
#include "tasks/question_answering/data.h"
#include "tasks/question_answering/evaluation.h"
#include "tasks/text_task.h"

namespace tandem::tasks {

// Batches are windows of similar length (data/text/question_windows.h).
class QuestionAnswering final : public TextTask<QuestionAnsweringOptions, QuestionData, models::SpanModel> {
 public:
  // Throws options::OptionError when the model is no SpanModel, or has no room for a question and a context.
  QuestionAnswering(const QuestionAnsweringOptions& options, const Context& context,
                    std::shared_ptr<const QuestionData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  bool keeps_details() const override { return options_.eval.predictions; }

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::string samples_are() const override { return "windows"; }
  std::vector<Signature> signatures() override { return {signature(model_->context())}; }
  // "tandem.codec" and "tandem.context".
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override {
    return {"inputs", "--question", "--top", "--logits", "--json", "--threshold", "--out"};
  }
  void predict(const PredictRequest& request, Device device) override;

 private:
  datasets::SourcePtr source_of(const std::string& split, Device device) const override;
  // The first `count` windows of a split.
  datasets::SourcePtr windows_source(const std::string& split, Index count,
                                     const datasets::BucketOptions& options, Device device) const;
  // Throws as TextData::split.
  const std::shared_ptr<const datasets::QuestionWindows>& windows(const std::string& split) const;
  datasets::QuestionWindowOptions window_options() const;
  // Lengths of padded windows are multiples of this, which stay within the context.
  Index grid() const;

  QuestionEvaluation::Parts parts_;  // of train, validation and test; empty if the data is only described
};

}  // namespace tandem::tasks
