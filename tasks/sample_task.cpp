#include "tasks/sample_task.h"

#include <fmt/core.h>

#include "tasks/preprocessing.h"

namespace tandem::tasks {

SampleTask::SampleTask(std::shared_ptr<const SampleData> data, std::vector<datasets::TransformSpec> augment,
                       const Context& context)
    : data_(std::move(data)),
      augment_(std::move(augment)),
      splits_(data_, context.loading, context.seed),
      training_(splits_.training_pipeline(augment_)) {}

datasets::SourcePtr SampleTask::training_source(Device device, Index batch_size) const {
  return splits_.training_source(augment_, device, batch_size, batch_weight());
}

datasets::SourcePtr SampleTask::evaluation_source(const std::string& split, Device device) const {
  return splits_.evaluation_source(augment_, split, device);
}

std::vector<Signature> SampleTask::signatures() {
  return {{model_.get(), training_.output_shape(), training_.output_dtype()}};
}

std::map<std::string, std::string> SampleTask::export_metadata() const {
  return preprocessing(data_->info(), data_->image_size(), augment_);
}

Tensor SampleTask::output(const datasets::Batch& batch, const LossContext& context) {
  const Tensor output = (*model_)(batch["image"]);
  if (context.ready) context.ready();
  return output;
}

std::string SampleTask::text_of_classes(std::string_view samples) const {
  const datasets::DatasetInfo& info = data_->info();
  return fmt::format("{}, {} classes", splits_.text_of(*training_source({}), samples),
                     info.boxes() ? info.classes - 1 : info.classes);
}

}  // namespace tandem::tasks
