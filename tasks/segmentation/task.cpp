#include "tasks/segmentation/task.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "files/json_text.h"
#include "tasks/drawing.h"
#include "tasks/families.h"
#include "tasks/segmentation/pictures.h"
#include "tasks/segmentation/predict.h"
#include "tasks/segmentation/scores.h"
#include "tasks/synthetic.h"
#include "tasks/task_factory.h"

namespace tandem::tasks {

namespace {

Tensor mask_of(const Tensor& masks, Index i) {
  const Tensor mask = masks.rows(i, 1).to(Device{});
  return mask.viewed(mask.shape().without(0));
}

class SegmentationEvaluation final : public Evaluation {
 public:
  SegmentationEvaluation(nn::Module& model, const SegmentationLoss& loss, const datasets::DatasetInfo& info,
                         const datasets::Affine& affine, Index examples, bool details)
      : model_(model),
        info_(info),
        affine_(affine),
        scores_(loss, info.classes),
        most_examples_(examples),
        examples_(examples),
        details_(details) {}

  // The record of the metrics, and image, truth and prediction of the shown samples.
  Record forward(const datasets::Batch& batch) override {
    RecordWriter writer;
    const Tensor classes = scores_.measure(model_(batch["image"]), batch["mask"], writer);
    const Index shown = std::clamp<Index>(most_examples_ - batch.first, 0, batch.samples);
    writer.put(shown);
    for (Index i = 0; i < shown; ++i)
      writer.put_tensor(pixels_of(batch["image"], i, affine_, info_.dtype == DType::u8 ? 255.0F : 1.0F))
          .put_tensor(mask_of(batch["mask"], i))
          .put_tensor(mask_of(classes, i));
    return std::move(writer).record();
  }

  void accumulate(std::span<const std::byte> record) override {
    RecordReader reader(record);
    scores_.take(reader);
    for (auto shown = reader.take<Index>(); shown > 0; --shown) {
      const Tensor image = reader.take_tensor(), truth = reader.take_tensor();
      examples_.add(image, truth, reader.take_tensor());
    }
    reader.end();
  }

  Metrics metrics() const override { return scores_.metrics(); }

  std::optional<Breakdown> breakdown() const override {
    constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> iou, dice;
    for (const metrics::Overlap& overlap : metrics::overlaps_of(scores_.confusion())) {
      iou.push_back(overlap.iou.value_or(kAbsent));
      dice.push_back(overlap.dice.value_or(kAbsent));
    }
    Breakdown result{.names = info_.class_names, .figures = {{"iou", iou}, {"dice", dice}}};
    for (std::size_t i = result.names.size(); i < iou.size(); ++i) result.names.push_back(std::to_string(i));
    return result;
  }

  Json details() const override {
    const Json breakdown = to_json(*this->breakdown());
    Json details{{"classes", info_.class_names}};
    details.update(breakdown["figures"]);
    if (const auto sweep = scores_.iou_by_threshold(); !sweep.empty()) details["iou_by_threshold"] = sweep;
    if (details_) details["confusion"] = scores_.confusion().rows();
    return details;
  }

  std::vector<Artifact> artifacts() const override {
    std::vector<Artifact> artifacts;
    if (std::string picture = examples_.png(); !picture.empty())
      artifacts.push_back({.file = "pictures/examples.png", .contents = std::move(picture), .kept = true});
    if (details_)
      artifacts.push_back({.file = "confusion.csv", .contents = scores_.confusion().csv(info_.class_names)});
    return artifacts;
  }

 private:
  nn::Module& model_;
  const datasets::DatasetInfo& info_;
  const datasets::Affine& affine_;
  PixelScores scores_;
  Index most_examples_;
  ExampleSheet examples_;
  bool details_;
};

class SegmentationRecipe final : public TaskFactoryOf<Segmentation, SegmentationOptions, SampleData> {
 public:
  using TaskFactoryOf::TaskFactoryOf;
  DataPtr open(SampleReport report) const override {
    return std::make_shared<SampleData>(datasets::open_masked_set(options().data.set, report));
  }
  DataPtr describe() const override { return open({}); }
};

}  // namespace

Segmentation::Segmentation(const SegmentationOptions& options, const Context& context,
                           std::shared_ptr<const SampleData> data)
    : SampleTask(std::move(data), options.data.augment, context),
      options_(options),
      loss_(segmentation_losses().make(options_.loss, data_->info().classes)) {
  require(training_.output_shape().rank() == 3, "data", "segmentation needs images, {} has samples of {}",
          data_->info().name, to_string(training_.output_shape()));
  const RandomScope random(context.seed, 0, 0);
  model_ = models::build(options_.model, {.sample = training_.output_shape(),
                                          .dtype = training_.output_dtype(),
                                          .classes = loss_->scores(),
                                          .kind = models::ModelKind::segmenter});
}

Tensor Segmentation::loss(const datasets::Batch& batch, const LossContext& context) {
  return (*loss_)(output(batch, context), batch["mask"]);
}

PartCounts Segmentation::part_counts() const {
  if (!loss_->by_pixels()) return PartCounts::samples;
  return loss_->batch_weight() ? PartCounts::measured : PartCounts::weight;
}

datasets::Batch Segmentation::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Shape shape = training_.output_shape().inserted(0, samples), masks = shape.without(3);
  if (device == kShapes)
    return {{{"image", shape_only(shape, DType::f32)}, {"mask", shape_only(masks, DType::u8)}}, samples};
  const Tensor mask = Tensor::empty(masks, {.dtype = DType::u8, .kind = MemoryKind::data});
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data, .call = 1});
  const std::span<std::uint8_t> pixels(mask.data<std::uint8_t>(), static_cast<std::size_t>(mask.numel()));
  for (auto& pixel : pixels)
    pixel = static_cast<std::uint8_t>(random.below(static_cast<std::uint32_t>(data_->info().classes)));
  datasets::Batch batch({{"image", random_images(shape, seed)}, {"mask", mask}}, samples);
  const datasets::BatchWeight weigh = loss_->batch_weight();
  batch.weight = weigh ? weigh(mask) : static_cast<double>(mask.numel());
  return batch.to(device);
}

std::unique_ptr<Evaluation> Segmentation::evaluation(bool details) {
  return std::make_unique<SegmentationEvaluation>(*model_, *loss_, data_->info(), training_.affine(),
                                                  options_.eval.examples, details);
}

std::string Segmentation::text_of(const datasets::Batch& batch) const {
  return fmt::format("{} and masks {}", to_string(batch["image"].shape()), to_string(batch["mask"].shape()));
}

std::map<std::string, std::string> Segmentation::export_metadata() const {
  auto metadata = SampleTask::export_metadata();
  metadata["tandem.output"] =
      files::json_text(Json{{"layout", "NHWC"}, {"class", loss_->scores() == 1 ? "above_zero" : "greatest"}});
  return metadata;
}

void Segmentation::predict(const PredictRequest& request, Device device) {
  write_masks(Segmenter(*model_, *data_, augment_, device), data_->info(),
              options_.data.set.common.image_reading(), request);
}

TaskRegistry::Entry segmentation_family() {
  return family_of<SegmentationRecipe>("segmentation", "one class for each pixel of an image");
}

}  // namespace tandem::tasks
