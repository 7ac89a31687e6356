#include "tasks/classification/task.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "models/builder.h"
#include "tasks/classification/predict.h"
#include "tasks/families.h"
#include "tasks/synthetic.h"
#include "tasks/task_factory.h"

namespace tandem::tasks {

namespace {

Index classes_of(nn::Module& model, const datasets::Pipeline& pipeline) {
  const Shape output = models::output_shape(model, pipeline.output_shape(), pipeline.output_dtype());
  require(output.rank() == 1, "model", "a classifier must return one score per class for each sample, got {}",
          to_string(output));
  return output[0];
}

class ClassificationEvaluation final : public Evaluation {
 public:
  ClassificationEvaluation(nn::Module& model, const ClassificationLoss& loss, const SampleData& data,
                           bool confusion)
      : model_(model), data_(data), scores_(loss, confusion) {}

  Record forward(const datasets::Batch& batch) override {
    return scores_.measure(model_(batch["image"]), batch);
  }
  void accumulate(std::span<const std::byte> record) override { scores_.take(record); }
  Metrics metrics() const override { return scores_.metrics(); }

  Json details() const override {
    const metrics::ConfusionMatrix* matrix = scores_.confusion();
    if (!matrix) return Json::object();
    return {{"classes", data_.info().class_names}, {"confusion", matrix->rows()}};
  }
  std::optional<Breakdown> breakdown() const override { return scores_.breakdown(data_.info().class_names); }
  std::vector<Artifact> artifacts() const override {
    const metrics::ConfusionMatrix* matrix = scores_.confusion();
    if (!matrix) return {};
    return {{"confusion.csv", matrix->csv(data_.info().class_names)}};
  }

 private:
  nn::Module& model_;
  const SampleData& data_;
  ClassificationScores scores_;
};

class ClassificationRecipe final : public TaskFactoryOf<Classification, ClassificationOptions, SampleData> {
 public:
  using TaskFactoryOf::TaskFactoryOf;
  DataPtr open(SampleReport report) const override { return SampleData::open(options().data.set, report); }
  DataPtr describe() const override { return SampleData::describe(options().data.set); }
};

}  // namespace

Classification::Classification(const ClassificationOptions& options, const Context& context,
                               std::shared_ptr<const SampleData> data)
    : SampleTask(std::move(data), options.data.augment, context), options_(options) {
  const RandomScope random(context.seed, 0, 0);
  model_ = models::build(options_.model, {.sample = training_.output_shape(),
                                          .dtype = datasets::batch_dtype(data_->info()),
                                          .classes = data_->info().classes,
                                          .kind = models::ModelKind::classifier});
  loss_ = classification_losses().make(options_.loss, classes_of(*model_, training_));
}

Tensor Classification::loss(const datasets::Batch& batch, const LossContext& context) {
  return (*loss_)(output(batch, context), batch);
}

datasets::Batch Classification::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Shape shape = training_.output_shape().inserted(0, samples);
  const DType dtype = training_.output_dtype();
  if (device == kShapes) {
    datasets::Batch batch({{"image", shape_only(shape, dtype)}, {"label", shape_only({samples})}}, samples);
    if (training_.mix().any())
      batch.set("soft_label", shape_only({samples, training_.classes()}, DType::f32));
    return batch;
  }
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data, .call = 1});
  datasets::Batch batch({{"image", random_images(shape, seed, dtype)},
                         {"label", random_ids({samples}, data_->info().classes, random)}},
                        samples);
  if (const datasets::BatchWeight weigh = loss_->batch_weight()) batch.weight = weigh(batch["label"]);
  return batch.to(device);
}

std::unique_ptr<Evaluation> Classification::evaluation(bool details) {
  return std::make_unique<ClassificationEvaluation>(*model_, *loss_, *data_, details);
}

std::string Classification::text_of(const datasets::Batch& batch) const {
  return to_string(batch["image"].shape());
}

void Classification::predict(const PredictRequest& request, Device device) {
  print_predictions(*model_, *data_, options_.data, request, device);
}

TaskRegistry::Entry classification_family() {
  return family_of<ClassificationRecipe>("classification", "one class for each sample");
}

}  // namespace tandem::tasks
