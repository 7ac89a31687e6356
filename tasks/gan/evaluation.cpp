#include "tasks/gan/evaluation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "data/image_grid.h"
#include "data/png_write.h"
#include "tasks/gan/noise.h"

namespace tandem::tasks {

namespace {

constexpr std::uint64_t kSeed = 0;  // of generated images, for every run
constexpr Index kShown = 64;        // images of the grid

}  // namespace

Tensor without_padding(const Tensor& images, Index padding) {
  if (padding == 0) return images;
  return slice(slice(images, 1, padding, images.size(1) - padding), 2, padding, images.size(2) - padding);
}

std::string png_grid(const Tensor& images) {
  return datasets::png_of(datasets::image_grid(datasets::pixels_of(images.to(Device{}), -1.0F, 1.0F)));
}

GanEvaluation::GanEvaluation(models::AdversarialPair& model, std::shared_ptr<Classifier> classifier,
                             Index samples, Index padding)
    : model_(model),
      classifier_(std::move(classifier)),
      samples_(samples),
      padding_(padding),
      made_classes_(static_cast<std::size_t>(classifier_->classes())) {}

Record GanEvaluation::forward(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const Tensor& images = batch["image"];
  RecordWriter writer;
  writer.put_tensor(classifier_->judge(without_padding(images, padding_)).features);
  const Index making = std::clamp<Index>(samples_ - batch.first, 0, images.size(0));
  writer.put(making);
  if (making == 0) return std::move(writer).record();
  FixedNoise noise(kSeed, model_.noise(), batch.first);
  const Tensor made = without_padding(model_.generator()(noise.next(making, images.device())), padding_);
  const Classifier::Judgement judged = classifier_->judge(cast(made, DType::f32));
  writer.put_tensor(judged.features).put_all(judged.classes);
  const Index shown = std::clamp<Index>(kShown - batch.first, 0, making);
  writer.put(shown);
  if (shown > 0) writer.put_tensor(cast(made.rows(0, shown), DType::f32));
  return std::move(writer).record();
}

void GanEvaluation::accumulate(std::span<const std::byte> record) {
  const auto add = [](metrics::FeatureMoments& moments, const Tensor& rows) {
    moments.add({rows.data<float>(), static_cast<std::size_t>(rows.numel())}, rows.size(1));
  };
  RecordReader reader(record);
  add(real_, reader.take_tensor());
  if (reader.take<Index>() > 0) {
    add(made_, reader.take_tensor());
    for (const Index c : reader.take_all<Index>()) ++made_classes_.at(static_cast<std::size_t>(c));
    if (reader.take<Index>() > 0) shown_.push_back(reader.take_tensor());
  }
  reader.end();
}

Metrics GanEvaluation::metrics() const {
  return {{classifier_->metric(), metrics::frechet_distance(real_, made_)},
          {"class_entropy", class_entropy()}};
}

double GanEvaluation::class_entropy() const {
  double entropy = 0.0;
  for (const std::int64_t count : made_classes_) {
    const double share = static_cast<double>(count) / static_cast<double>(made_.count());
    if (count > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

Json GanEvaluation::details() const {
  return {{"classifier", classifier_->description()},
          {"samples", made_.count()},
          {"made_classes", made_classes_}};
}

std::vector<Artifact> GanEvaluation::artifacts() const {
  if (shown_.empty()) return {};
  const NoGrad no_grad;
  return {{.file = "pictures/samples.png", .contents = png_grid(concat(shown_, 0)), .kept = true}};
}

}  // namespace tandem::tasks
