// Masked-language task: see tasks/families.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/text/masked_source.h"
#include "models/masked_model.h"
#include "tasks/masked_language/data.h"
#include "tasks/text_task.h"

namespace tandem::tasks {

// Documents are cut into passages that fill the model's context. Batches are passages of similar length with
// masked words. The loss is the mean over masked words; for a model with pairs, plus the mean loss of the
// next sentence. Batches are weighted by their masked words.
class MaskedLanguage final : public TextTask<MaskedLanguageOptions, MaskedLanguageData, models::MaskedModel> {
 public:
  // Throws options::OptionError when the model is not a masked language model, or does not support an option.
  MaskedLanguage(const MaskedLanguageOptions& options, const Context& context,
                 std::shared_ptr<const MaskedLanguageData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  PartCounts part_counts() const override { return PartCounts::weight; }

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  std::map<std::string, std::string> undefined_figures(const std::string& split) const override;

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::string samples_are() const override { return "texts"; }
  std::vector<Signature> signatures() override { return {signature(model_->context())}; }
  // "tandem.codec" and "tandem.context".
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override {
    return {"inputs", "--top", "--logits", "--json"};
  }
  void predict(const PredictRequest& request, Device device) override;

 private:
  using MaskedTextSource = std::shared_ptr<datasets::MaskedSource>;

  datasets::SourcePtr source_of(const std::string& split, Device device) const override;
  MaskedTextSource masked_texts(datasets::Passages passages, bool training,
                                const datasets::BucketOptions& options, Device device) const;
  MaskedTextSource training_texts(Device device, Index batch_size) const;
  // Of a split, in parts that fit the context.
  datasets::Passages passages(const std::string& split) const;
  // Multiples of which padded texts stay within the context.
  Index grid() const;
};

}  // namespace tandem::tasks
