// Translation task: see family.h.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/text/pair_source.h"
#include "models/sequence_to_sequence.h"
#include "tasks/text_task.h"
#include "tasks/translation/data.h"
#include "tasks/translation/search.h"

namespace tandem::tasks {

// Batches are pairs of similar length (data/text/pair_source.h). The loss is the mean over target pieces
// including ends, and batches are weighted by their number. With `drop_last`, or a requested batch size,
// every epoch drops the last pairs so that all batches are full.
class Translation final : public TextTask<TranslationOptions, TranslationData, models::SequenceToSequence> {
 public:
  // Throws options::OptionError when the model is not an encoder–decoder.
  Translation(const TranslationOptions& options, const Context& context,
              std::shared_ptr<const TranslationData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  PartCounts part_counts() const override { return PartCounts::weight; }

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  bool keeps_details() const override { return options_.eval.translations; }

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::vector<std::string> notes_of_data() const override;
  std::string samples_are() const override { return "pairs"; }
  std::vector<Signature> signatures() override;
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override { return {"inputs", "--top", "--json"}; }
  void predict(const PredictRequest& request, Device device) override;

 private:
  BeamOptions search_options() const { return beam_options(options_.eval, *data_, *model_); }
  // For texts of the data and of beam search; empty for models without such graphs.
  std::vector<nn::Part> exported_parts() const {
    return model_->parts(std::max(data_->max_length(), search_options().max_length));
  }
  datasets::SourcePtr source_of(const std::string& split, Device device) const override;
  using SourceOfPairs = std::shared_ptr<const datasets::PairSource>;
  SourceOfPairs first_pairs(const std::string& split, Index pairs, const datasets::BucketOptions& options,
                            Device device) const;
  SourceOfPairs training_pairs(Device device, Index batch_size) const;
};

}  // namespace tandem::tasks
