// Language-model task: see family.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/log_uniform.h"
#include "data/text/stream_source.h"
#include "models/causal_model.h"
#include "tasks/language/data.h"
#include "tasks/text_task.h"

namespace tandem::tasks {

// For a model that carries its state, a text is divided into as many streams as a batch has rows, and each
// batch continues the one before; other models read windows of the text. The loss is the mean over words, and
// batches are weighted by their words. Evaluation reads eval_batch_size streams in parallel, each from an
// empty state, or that many windows.
class Language final : public TextTask<LanguageOptions, LanguageData, models::CausalModel> {
 public:
  // Throws options::OptionError when the model is not a language model, or does not support an option.
  Language(const LanguageOptions& options, const Context& context, std::shared_ptr<const LanguageData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  PartCounts part_counts() const override { return PartCounts::weight; }

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::Batch synthetic_batch(Index streams, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::string samples_are() const override;
  std::vector<Signature> signatures() override { return {signature(steps())}; }
  // "tandem.words" and "tandem.tokenizer", or "tandem.codec"; "tandem.context" if the model has one.
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override;
  void predict(const PredictRequest& request, Device device) override;

 private:
  datasets::SourcePtr source_of(const std::string& split, Device device) const override;
  // Bytes of UTF-8 of each id of characters, or of a codec that keeps every byte; else empty. An end of a
  // line and an unknown character count as one byte, a mark between texts as none.
  std::vector<Index> bytes_of_ids() const;
  // Words of a stream or window in a batch. Default: 35, or as many as a text may have.
  Index steps() const;
  // The split's ids. Throws UserError if there are fewer than streams.
  datasets::StreamSource::Ids ids_of(const std::string& split, Index streams) const;
  datasets::SourcePtr streams(datasets::StreamSource::Ids ids, Index streams, bool training,
                              Device device) const;
  datasets::SourcePtr windows(datasets::StreamSource::Ids ids, Index windows, bool shuffle,
                              Device device) const;

  // Sampling of candidate words, if the model's training uses it.
  std::optional<datasets::CandidateOptions> candidates() const;
};

}  // namespace tandem::tasks
