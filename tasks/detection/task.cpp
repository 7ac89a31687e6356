#include "tasks/detection/task.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "core/random.h"
#include "core/shapes_backend.h"
#include "data/boxes/box_dataset.h"
#include "data/boxes/label_check.h"
#include "data/sample_source.h"
#include "files/json_text.h"
#include "files/not_there.h"
#include "models/builder.h"
#include "tasks/detection/box_fit.h"
#include "tasks/detection/evaluation.h"
#include "tasks/detection/predict.h"
#include "tasks/families.h"
#include "tasks/synthetic.h"
#include "tasks/task_factory.h"

namespace tandem::tasks {

namespace {

using datasets::BoxCorpus;

// Class ids of the files; for data without files, labels replace the ids.
datasets::BoxClasses classes_of(const SampleData& data) {
  if (const BoxCorpus* const train = data.splits().train->box_corpus()) return train->classes;
  datasets::BoxClasses classes;
  const auto& names = data.info().class_names;
  for (Index label = 1; label < data.info().classes; ++label) {
    const auto at = static_cast<std::size_t>(label);
    classes.add(at < names.size() ? names[at] : std::to_string(label), label);
  }
  return classes;
}

// Excludes numbers that splits give to different images.
std::map<std::int64_t, std::string> names_of_images(const datasets::Splits& splits) {
  std::map<std::int64_t, std::string> names;
  std::vector<std::int64_t> shared;
  for (const datasets::DatasetPtr& split : {splits.train, splits.validation, splits.test}) {
    const BoxCorpus* const boxes = split ? split->box_corpus() : nullptr;
    if (!boxes) continue;
    for (const datasets::BoxImage& image : boxes->images) {
      const auto [at, is_new] = names.emplace(image.id, image.name);
      if (!is_new && at->second != image.name) shared.push_back(image.id);
    }
  }
  for (const std::int64_t id : shared) names.erase(id);
  return names;
}

class DetectionRecipe final : public TaskFactoryOf<DetectionTask, DetectionOptions, SampleData> {
 public:
  using TaskFactoryOf::TaskFactoryOf;
  DataPtr open(SampleReport report) const override {
    const DetectionOptions::Data& data = options().data;
    datasets::Splits splits =
        datasets::as_datasets(std::string(data.set.set.name()), datasets::open_box_set(data.set),
                              data.channels, data.image_size, data.set.common.image_reading());
    datasets::guard_samples(splits, data.set.common, report);
    return std::make_shared<SampleData>(std::move(splits));
  }
  // For COCO and VOC without their files: published facts, or the model's number of classes.
  DataPtr describe() const override {
    const DetectionOptions::Data& data = options().data;
    const auto published = datasets::published_boxes(data.set);
    if (!published) return open({});
    try {
      return open({});
    } catch (const files::NotThere& error) {
      const options::Value* const given = options().model.spec.find("num_classes");
      const Index classes =
          given && given->is(options::Value::Kind::integer) ? given->integer : published->classes + 1;
      datasets::DatasetInfo info{.name = std::string(data.set.set.name()),
                                 .sample_shape = {0, 0, data.channels},
                                 .classes = classes,
                                 .most_objects = published->most_objects};
      return std::make_shared<SampleData>(
          std::move(info), data.image_size, 0,
          std::vector<std::string>{fmt::format("without its data, assumed to have {} classes: {}",
                                               classes - 1, printable(error.what()))});
    }
  }
};

}  // namespace

DetectionTask::DetectionTask(const DetectionOptions& options, const Context& context,
                             std::shared_ptr<const SampleData> data)
    : SampleTask(std::move(data), options.data.augment, context),
      options_(options),
      classes_(classes_of(*data_)),
      image_names_(names_of_images(data_->splits())) {
  require(data_->info().boxes(), "data", "detection needs images with boxes, {} has none",
          data_->info().name);
  const RandomScope random(context.seed, 0, 0);
  detector_ = models::build_as<models::Detector>(options_.model, {.sample = training_.output_shape(),
                                                                  .dtype = training_.output_dtype(),
                                                                  .classes = data_->info().classes});
  if (const std::string wrong = datasets::wrong_num_classes(classes_, detector_->classes()); !wrong.empty())
    throw options::OptionError("model.num_classes", wrong);
  model_ = detector_;
}

const BoxCorpus* DetectionTask::box_corpus(const std::string& split) const {
  const datasets::Splits& splits = data_->splits();
  const datasets::DatasetPtr& set = split == "train"        ? splits.train
                                    : split == "validation" ? splits.validation
                                                            : splits.test;
  return set ? set->box_corpus() : nullptr;
}

Tensor DetectionTask::loss(const datasets::Batch& batch, const LossContext& context) {
  const TensorList outputs = detector_->outputs(batch["image"]);
  if (context.ready) context.ready();
  return detector_->loss(outputs, batch["box"], options_.loss);
}

optim::PartWeight DetectionTask::measured_weight(const datasets::Batch& batch) const {
  const auto terms = static_cast<double>(detector_->loss_terms(batch.on_host("box"), options_.loss));
  return {terms, std::max(terms, 1.0)};
}

datasets::Batch DetectionTask::synthetic_batch(Index samples, std::uint64_t seed, Device device) const {
  const Shape shape = training_.output_shape().inserted(0, samples);
  const Index rows = std::max<Index>(*data_->info().most_objects, 1);
  const Shape boxes{samples, rows, 5};
  if (device == kShapes)
    return {{{"image", shape_only(shape, DType::f32)}, {"box", shape_only(boxes, DType::f32)}}, samples};
  const Tensor box = Tensor::zeros(boxes, {.kind = MemoryKind::data});
  RandomStream random({.seed = seed, .purpose = RandomPurpose::synthetic_data, .call = 1});
  const auto labels = static_cast<std::uint32_t>(data_->info().classes - 1);
  auto* const row = reinterpret_cast<datasets::BoxRow*>(box.data<float>());
  for (Index i = 0; i < samples * rows; ++i) {
    const float x = random.uniform(0.0F, 0.6F), y = random.uniform(0.0F, 0.6F);
    row[i] = {x, y, x + random.uniform(0.1F, 0.4F), y + random.uniform(0.1F, 0.4F),
              static_cast<float>(1 + random.below(labels))};
  }
  datasets::Batch batch({{"image", random_images(shape, seed)}, {"box", box}}, samples);
  batch.keep_on_host("box");
  return batch.to(device);
}

std::unique_ptr<Evaluation> DetectionTask::evaluation(bool details) {
  return std::make_unique<DetectionEvaluation>(
      EvaluatedDetector{*detector_, options_, data_->info(), classes_, training_.affine(), image_names_},
      details);
}

std::map<std::string, std::string> DetectionTask::undefined_figures(const std::string& split) const {
  const BoxCorpus* const corpus = box_corpus(split);
  return corpus ? tasks::undefined_figures(*corpus, splits_.of(split)->size())
                : std::map<std::string, std::string>();
}

std::string DetectionTask::text_of(const datasets::Batch& batch) const {
  const std::vector<float> rows = batch["box"].to_vector<float>();
  Index boxes = 0;
  for (std::size_t at = 4; at < rows.size(); at += 5) boxes += rows[at] > 0 ? 1 : 0;
  return fmt::format("{} with {} boxes", to_string(batch["image"].shape()), boxes);
}

std::vector<std::string> DetectionTask::notes_of_data() const {
  std::vector<std::string> notes = data_->splits().notes;
  const BoxCorpus* const evaluated = box_corpus(splits_.is_overfit_run() ? "train" : "test");
  if (options_.eval.results && evaluated) {
    std::vector<std::int64_t> images;
    for (const datasets::BoxImage& image : evaluated->images) images.push_back(image.id);
    if (const std::string lack = lacking_for_voc(images, image_names_); !lack.empty())
      notes.push_back(
          printable(fmt::format("eval.results: only detections.json, no files in VOC's format: {}", lack)));
  }
  const BoxCorpus* const train = box_corpus("train");
  if (const Tensor anchors = detector_->fixed_anchors(); train && anchors.defined()) {
    const Index side = training_.output_shape()[0];
    notes.push_back(fit_of(*train, anchors, side, options_.loss.match()).text(options_.loss.threshold));
  }
  return notes;
}

std::vector<Signature> DetectionTask::signatures() {
  const nn::Forward graph = detector_->graph();
  return {{.module = detector_.get(),
           .sample = training_.output_shape(),
           .dtype = training_.output_dtype(),
           .input = "images",
           .outputs = {"boxes", "scores"},
           .graph = graph,
           .suppression = nn::Suppression{.most = options_.postprocess.per_class,
                                          .overlap = options_.postprocess.nms,
                                          .score = options_.postprocess.score},
           .no_graph = graph ? "" : "this detector's boxes do not come from a graph of ops"}};
}

std::map<std::string, std::string> DetectionTask::export_metadata() const {
  auto metadata = SampleTask::export_metadata();
  const auto& [score, per_class, nms, keep] = options_.postprocess;
  metadata["tandem.output"] = files::json_text(Json{{"box", {"x1", "y1", "x2", "y2"}},
                                                    {"score", score},
                                                    {"per_class", per_class},
                                                    {"nms", nms},
                                                    {"keep", keep}});
  return metadata;
}

void DetectionTask::predict(const PredictRequest& request, Device device) {
  models::SuppressionOptions suppression = options_.postprocess.suppression();
  const double least = request.threshold.value_or(1.0);
  require(least >= 0.0 && least <= 1.0, "", "predict: --threshold is {}, the scores of boxes are 0 to 1",
          least);
  suppression.score = std::min(suppression.score, least);
  write_boxes(BoxFinder(*detector_, *data_, augment_, suppression, device), data_->info(),
              options_.data.set.common.image_reading(), options_.eval.shown, request);
}

TaskRegistry::Entry detection_family() {
  return family_of<DetectionRecipe>("detection", "boxes of objects in images, and their classes");
}

}  // namespace tandem::tasks
