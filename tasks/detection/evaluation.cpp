#include "tasks/detection/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "core/error.h"
#include "core/printable.h"
#include "tasks/detection/pictures.h"
#include "tasks/detection/results.h"

namespace tandem::tasks {

namespace {

constexpr std::size_t kHalf = 0;  // the threshold 0.5 among COCO's

// Image facts from the data set; sides in pixels.
struct Image {
  std::int64_t number, height, width;
};

// Host rows of a batch's field that belong to image `i`.
template <class T>
const T* rows_of(const Tensor& field, Index i) {
  const std::size_t image = field.bytes() / static_cast<std::size_t>(field.size(0));
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(field.raw()) +
                                    static_cast<std::size_t>(i) * image);
}

// The leading rows that are not padding.
template <class T, class Test>
std::vector<T> present(const T* rows, Index most, Test test) {
  return std::vector<T>(rows, std::find_if_not(rows, rows + most, test));
}

double voc_mean(const metrics::VocFigures& figures, VocMean mean) {
  return mean == VocMean::area ? figures.area : figures.eleven_point;
}

// One id's entry of metrics by id.
template <class Figures>
const Figures& figures_of(const std::vector<Figures>& by_id, std::int64_t id) {
  return *std::ranges::lower_bound(by_id, id, {}, &Figures::id);
}

// Reason for an undefined COCO metric.
std::string nothing_to_find(std::string_view figure) {
  if (figure.ends_with("_small")) return "no object has at most 32² pixels";
  if (figure.ends_with("_medium")) return "no object has 32² to 96² pixels";
  if (figure.ends_with("_large")) return "no object has 96² pixels or more";
  return "it has no object (crowds do not count)";
}

}  // namespace

std::string lacking_for_voc(std::span<const std::int64_t> images,
                            const std::map<std::int64_t, std::string>& names) {
  for (const std::int64_t image : images) {
    const auto name = names.find(image);
    if (name == names.end()) return fmt::format("two images have the number {}", image);
    if (!is_voc_id(name->second))
      return fmt::format("image {} is called \"{}\", but VOC's format needs a name of one word", image,
                         name->second);
  }
  return "";
}

std::map<std::string, std::string> undefined_figures(const datasets::BoxCorpus& corpus, Index images) {
  const std::vector<std::int64_t> categories(corpus.classes.ids.begin() + 1, corpus.classes.ids.end());
  std::vector<std::int64_t> ids;
  std::vector<metrics::TrueBox> boxes;
  for (const datasets::BoxImage& image : std::span(corpus.images).first(static_cast<std::size_t>(images))) {
    ids.push_back(image.id);
    for (const datasets::BoxObject& object : image.objects)
      boxes.push_back({.id = object.id,
                       .image = image.id,
                       .category = corpus.classes.ids.at(static_cast<std::size_t>(object.label)),
                       .box = {object.box.x1, object.box.y1, object.box.width(), object.box.height()},
                       .area = object.area,
                       .crowd = object.crowd,
                       .difficult = object.difficult});
  }
  const metrics::GroundTruth truth{.images = ids, .categories = categories, .boxes = boxes};
  std::map<std::string, std::string> undefined;
  const metrics::CocoResult coco = metrics::evaluate_coco(truth, {});
  for (std::size_t i = 0; i < metrics::kCocoFigures.size(); ++i)
    if (coco.figures[i] < 0)
      undefined.emplace(metrics::kCocoFigures[i], nothing_to_find(metrics::kCocoFigures[i]));
  if (!metrics::evaluate_voc(truth, {}).mean)
    undefined.emplace("mAP", "it has no object (difficult ones do not count)");
  return undefined;
}

DetectionEvaluation::DetectionEvaluation(const EvaluatedDetector& of, bool details)
    : of_(of),
      details_(details),
      categories_(of.classes.ids.begin() + 1, of.classes.ids.end()),
      examples_(of.options.eval.examples) {}

std::int64_t DetectionEvaluation::category_of(Index label) const {
  return of_.classes.ids.at(static_cast<std::size_t>(label));
}

Record DetectionEvaluation::forward(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const TensorList outputs = of_.model.outputs(batch["image"]);
  RecordWriter writer;
  writer.put(of_.model.loss(outputs, batch["box"], of_.options.loss).item());
  writer.put(batch.samples);
  const auto found = of_.model.decode(outputs, of_.options.postprocess.suppression());
  const Tensor objects = batch["object"].to(Device{}), origins = batch["origin"].to(Device{});
  const Tensor boxes = batch["box"].to(Device{});
  const float unit = of_.info.dtype == DType::u8 ? 255.0F : 1.0F;
  for (Index i = 0; i < batch.samples; ++i) {
    const std::int64_t* const origin = rows_of<std::int64_t>(origins, i);
    std::vector<Found> taken;
    for (const models::FoundBox& each : found[static_cast<std::size_t>(i)])
      taken.push_back({each.box, static_cast<std::int32_t>(each.label), each.score});
    const bool shown = batch.first + i < of_.options.eval.examples;
    writer.put(Image{origin[0], origin[1], origin[2]});
    writer.put_all(present(rows_of<datasets::ObjectRow>(objects, i), objects.size(1),
                           [](const datasets::ObjectRow& object) { return object.label > 0; }));
    writer.put_all(taken).put(shown);
    if (!shown) continue;
    writer.put_tensor(pixels_of(batch["image"], i, of_.affine, unit));
    writer.put_all(present(rows_of<datasets::BoxRow>(boxes, i), boxes.size(1),
                           [](const datasets::BoxRow& box) { return box[4] > 0; }));
  }
  return std::move(writer).record();
}

void DetectionEvaluation::accumulate(std::span<const std::byte> record) {
  RecordReader reader(record);
  const auto loss = reader.take<double>();
  const auto samples = reader.take<Index>();
  loss_ += loss * static_cast<double>(samples);
  samples_ += samples;
  for (Index i = 0; i < samples; ++i) take_image(reader);
  reader.end();
  figures_.reset();
}

void DetectionEvaluation::take_image(RecordReader& from) {
  const auto image = from.take<Image>();
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const auto objects = from.take_all<datasets::ObjectRow>();
  const auto found = from.take_all<Found>();
  const bool counts = taken_.insert(image.number).second;
  if (counts) {
    images_.push_back(image.number);
    add_truth(objects, image.number);
  }
  for (const Found& each : found) {
    if (!counts) break;
    const double x = each.box.x1 * width, y = each.box.y1 * height;
    detections_.push_back({.image = image.number,
                           .category = category_of(each.label),
                           .box = {x, y, each.box.x2 * width - x, each.box.y2 * height - y},
                           .score = each.score});
  }
  if (!from.take<bool>()) return;
  const Tensor picture = from.take_tensor();
  add_example(picture, from.take_all<datasets::BoxRow>(), found);
}

void DetectionEvaluation::add_truth(const std::vector<datasets::ObjectRow>& objects, std::int64_t image) {
  for (const datasets::ObjectRow& object : objects) {
    truth_.push_back({.id = static_cast<std::int64_t>(object.id),
                      .image = image,
                      .category = category_of(static_cast<Index>(object.label)),
                      .box = {object.x1, object.y1, object.x2 - object.x1, object.y2 - object.y1},
                      .area = object.area,
                      .crowd = object.crowd > 0,
                      .difficult = object.difficult > 0});
  }
}

void DetectionEvaluation::add_example(const Tensor& picture, const std::vector<datasets::BoxRow>& truth,
                                      const std::vector<Found>& found) {
  const auto name_of = [&](Index label) { return of_.classes.names.at(static_cast<std::size_t>(label)); };
  std::vector<DrawnBox> true_boxes, found_boxes;
  for (const datasets::BoxRow& row : truth) {
    const auto label = static_cast<Index>(row[4]);
    true_boxes.push_back({{row[0], row[1], row[2], row[3]}, label, name_of(label)});
  }
  for (const Found& each : found) {
    if (each.score < of_.options.eval.shown) continue;
    found_boxes.push_back(
        {each.box, each.label, fmt::format("{} {:.0f}%", name_of(each.label), 100.0F * each.score)});
  }
  examples_.add({with_boxes(picture, true_boxes), with_boxes(picture, found_boxes)});
}

metrics::GroundTruth DetectionEvaluation::truth() const {
  return {.images = images_, .categories = categories_, .boxes = truth_};
}

const DetectionEvaluation::Figures& DetectionEvaluation::figures() const {
  if (!figures_)
    figures_ = Figures{.coco = metrics::evaluate_coco(truth(), detections_, {.curves = true}),
                       .voc = metrics::evaluate_voc(truth(), detections_)};
  return *figures_;
}

Metrics DetectionEvaluation::metrics() const {
  Metrics metrics;
  const Figures& all = figures();
  for (std::size_t i = 0; i < metrics::kCocoFigures.size(); ++i) {
    if (all.coco.figures[i] >= 0) metrics.emplace_back(metrics::kCocoFigures[i], all.coco.figures[i]);
  }
  if (all.voc.mean) metrics.emplace_back("mAP", voc_mean(*all.voc.mean, of_.options.eval.voc));
  metrics.emplace_back("loss", samples_ == 0 ? 0.0 : loss_ / static_cast<double>(samples_));
  return metrics;
}

std::optional<Breakdown> DetectionEvaluation::breakdown() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Figures& all = figures();
  std::vector<double> ap, ap50, voc;
  Breakdown result{
      .names = {},
      .figures = {},
      .curves = {.title = "Precision over recall at IoU 0.5", .x = "recall", .y = "precision", .values = {}}};
  for (std::size_t i = 0; i < categories_.size(); ++i) {
    if (!of_.classes.has(i + 1)) continue;
    const metrics::CocoCategory& category = figures_of(all.coco.categories, categories_[i]);
    const auto figure = [&](std::size_t which) {
      return category.figures[which] >= 0 ? category.figures[which] : kNone;
    };
    result.names.push_back(of_.classes.names[i + 1]);
    ap.push_back(figure(0));
    ap50.push_back(figure(1));
    const auto& figures = figures_of(all.voc.classes, categories_[i]).figures;
    voc.push_back(figures ? voc_mean(*figures, of_.options.eval.voc) : kNone);
    const auto first =
        category.precisions.begin() + static_cast<std::ptrdiff_t>(kHalf * metrics::kCocoRecalls);
    auto& curve = result.curves.values.emplace_back();
    if (!category.precisions.empty())
      curve.assign(first, first + static_cast<std::ptrdiff_t>(metrics::kCocoRecalls));
  }
  result.figures = {{"AP", ap}, {"AP50", ap50}, {"voc", voc}};
  return result;
}

Json DetectionEvaluation::details() const {
  const Json breakdown = to_json(*this->breakdown());
  Json json{{"classes", breakdown["classes"]}};
  json.update(breakdown["figures"]);
  json["precision"] = breakdown["curves"]["values"];
  if (const auto& warnings = figures().coco.warnings; !warnings.empty()) json["warnings"] = warnings;
  return json;
}

std::vector<Artifact> DetectionEvaluation::artifacts() const {
  std::vector<Artifact> artifacts;
  if (std::string picture = examples_.png(); !picture.empty())
    artifacts.push_back({.file = "pictures/examples.png", .contents = std::move(picture), .kept = true});
  if (!details_) return artifacts;
  artifacts.push_back({.file = "detections.json", .contents = coco_results(detections_)});
  if (const std::string lack = lacking_for_voc(images_, of_.image_names); !lack.empty()) {
    artifacts.push_back({.file = "detections/none.txt",
                         .contents = fmt::format("No files in VOC's format: {}.\n", printable(lack))});
    return artifacts;
  }
  for (std::size_t i = 0; i < categories_.size(); ++i) {
    if (!of_.classes.has(i + 1)) continue;
    artifacts.push_back({.file = "detections/" + voc_results_name(of_.classes.names[i + 1]),
                         .contents = voc_results(detections_, categories_[i], of_.image_names)});
  }
  return artifacts;
}

}  // namespace tandem::tasks
