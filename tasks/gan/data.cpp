#include "tasks/gan/data.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tandem::tasks {

GanData::GanData(std::shared_ptr<const SampleData> samples, std::shared_ptr<Classifier> classifier)
    : samples_(std::move(samples)), classifier_(std::move(classifier)) {
  require(datasets::are_images(info()) && info().dtype == DType::u8, "data",
          "{} holds {} of {}; a GAN needs 8-bit images", info().name, name_of(info().dtype),
          to_string(info().sample_shape));
}

DataPtr GanData::open(const GanOptions& options, const datasets::SampleReport& report) {
  const auto samples = SampleData::open(options.data.set, report);
  const GanData images(samples, nullptr);  // checks the samples first
  auto classifier = Classifier::of(options.eval.features, {.info = samples->info(),
                                                           .image_size = samples->image_size(),
                                                           .steps = lasting_steps(options.data.augment)});
  const std::string &best = options.checkpoint.best, &metric = classifier->metric();
  require(!best.starts_with("fd_") || best == metric, "checkpoint.best",
          "is {}, the classifier's features give {}", best, metric);
  return std::make_shared<GanData>(samples, std::move(classifier));
}

DataPtr GanData::describe(const GanOptions& options) {
  return std::make_shared<GanData>(SampleData::describe(options.data.set), nullptr);
}

DataPtr GanData::recall(const Json& description) {
  return std::make_shared<GanData>(SampleData::recall(description), nullptr);
}

Json GanData::description() const {
  Json description = samples_->description();
  if (classifier_) description["classifier"] = classifier_->description();
  return description;
}

void GanData::require_like(const Json& saved, const std::string& weights) const {
  const auto then = SampleData::recall(saved);
  require(then->info().sample_shape == info().sample_shape && then->image_size() == samples_->image_size(),
          "", "{}: were trained on images of {}, {} has {}", weights, to_string(then->info().sample_shape),
          info().name, to_string(info().sample_shape));
}

}  // namespace tandem::tasks
