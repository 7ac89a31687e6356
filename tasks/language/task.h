// The task of a language model: see family.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/log_uniform.h"
#include "data/text/stream_source.h"
#include "models/causal_model.h"
#include "tasks/language/data.h"
#include "tasks/registry.h"

namespace tandem::tasks {

// A text is divided into as many streams as a batch has; each batch goes on where the one before it ended,
// with the state that its words left, where the model carries one. The loss is the mean over words, and
// batches count by their words. Evaluation reads eval_batch_size streams at once, every one of which begins
// without a past.
class Language final : public Task {
 public:
  // Throws options::OptionError when the model is no language model, or cannot have what is asked for.
  Language(const LanguageOptions& options, const Context& context, std::shared_ptr<const LanguageData> data);

  nn::Module& model() override { return *model_; }
  DataPtr data() const override { return data_; }
  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  PartCounts part_counts() const override { return PartCounts::weight; }

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::SourcePtr evaluation_source(const std::string& split, Device device) const override;
  std::string validation_split() const override;
  datasets::Batch synthetic_batch(Index streams, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::string samples_are() const override;
  std::vector<Signature> signatures() override;
  // "tandem.words" and "tandem.tokenizer".
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override;
  void predict(const PredictRequest& request, Device device) override;

 private:
  // The data's own. Throws UserError where there are fewer than streams.
  datasets::StreamSource::Ids ids_of(const std::string& split, Index streams) const;
  datasets::SourcePtr streams(datasets::StreamSource::Ids ids, Index streams, bool training,
                              Device device) const;

  // The words that are drawn for a batch, where the model trains against some.
  std::optional<datasets::CandidateOptions> candidates() const;

  const LanguageOptions options_;
  const Context context_;
  std::shared_ptr<const LanguageData> data_;
  std::shared_ptr<models::CausalModel> model_;
};

}  // namespace tandem::tasks
