// GAN task: see family.h.
#pragma once

#include "data/transforms/transform.h"
#include "models/adversarial_pair.h"
#include "tasks/gan/data.h"
#include "tasks/gan/options.h"
#include "tasks/registry.h"
#include "tasks/sample_splits.h"

namespace tandem::tasks {

// An iteration has two phases (Goodfellow et al. 2014, with the non-saturating generator loss): the
// discriminator minimises BCE(D(x), 1) + BCE(D(G(z)), 0), then the generator BCE(D(G(z)), 1) with the updated
// discriminator. Both phases use the same z, and each leaves the other network's parameters, gradients and
// running statistics unchanged.
class Gan final : public Task {
 public:
  // Throws UserError when the model cannot generate the images' size, options::OptionError when the model is
  // not a pair of networks.
  Gan(const GanOptions& options, const Context& context, std::shared_ptr<const GanData> data);

  nn::Module& model() override { return *model_; }
  DataPtr data() const override { return data_; }
  std::vector<Phase> phases() override;
  Tensor loss(const datasets::Batch& batch, const LossContext& context) override;

  datasets::SourcePtr training_source(Device device, Index batch_size = 0) const override;
  datasets::SourcePtr evaluation_source(const std::string& split, Device device) const override;
  std::string validation_split() const override { return splits_.validation_split(); }
  datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const override;

  std::unique_ptr<Evaluation> evaluation(bool details) override;

  std::string text_of(const datasets::Batch& batch) const override;
  std::string text_of_data() const override;
  std::vector<std::string> notes_of_data() const override { return data_->samples().splits().notes; }
  std::vector<Signature> signatures() override;
  std::map<std::string, std::string> export_metadata() const override;
  std::vector<std::string> predict_options() const override { return {"--count", "--out", "--seed"}; }
  void predict(const PredictRequest& request, Device device) override;

 private:
  std::vector<datasets::TransformSpec> steps(bool evaluation) const;
  Tensor made(Index samples, Device device);
  Tensor judged(const Tensor& images, double as, const LossContext& context);

  const GanOptions options_;
  const Context context_;
  std::shared_ptr<const GanData> data_;
  SampleSplits splits_;
  Index padding_ = 0;  // pixels on each side between the images' and the networks' size
  std::shared_ptr<models::AdversarialPair> model_;
};

}  // namespace tandem::tasks
