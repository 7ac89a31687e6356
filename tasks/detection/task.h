// Detection task: see family.h.
#pragma once

#include <map>

#include "data/boxes/box_corpus.h"
#include "models/detector.h"
#include "tasks/detection/options.h"
#include "tasks/sample_task.h"

namespace tandem::tasks {

class DetectionTask final : public SampleTask {
 public:
  // Throws UserError when the model does not fit the data, options::OptionError when it is not a detector or
  // has another number of classes.
  DetectionTask(const DetectionOptions& options, const Context& context,
                std::shared_ptr<const SampleData> data);

  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;
  PartCounts part_counts() const override {
    return options_.loss.by_anchors() ? PartCounts::measured : PartCounts::samples;
  }
  // Terms of the loss, whose divisor is at least one.
  optim::PartWeight measured_weight(const datasets::Batch& batch) const override;
  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;
  std::map<std::string, std::string> undefined_figures(const std::string& split) const override;
  bool keeps_details() const override { return options_.eval.results; }

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override { return text_of_classes("images with boxes"); }
  std::vector<std::string> notes_of_data() const override;
  std::vector<Signature> signatures() override;
  // "tandem.output": decoding of the boxes, see `postprocess`.
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override {
    return {"inputs", "--out", "--json", "--threshold"};
  }
  void predict(const PredictRequest& request, Device device) override;

 private:
  // The whole split, of which a run may use only the first images; nullptr when the data is only described.
  const datasets::BoxCorpus* box_corpus(const std::string& split) const;

  const DetectionOptions options_;
  std::shared_ptr<models::Detector> detector_;  // the same object as model_
  datasets::BoxClasses classes_;
  std::map<std::int64_t, std::string> image_names_;  // of all splits; without names that are not unique
};

}  // namespace tandem::tasks
