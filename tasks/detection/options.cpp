#include "tasks/detection/options.h"

#include "metrics/coco.h"

template <>
struct tandem::options::EnumNames<tandem::tasks::VocMean> {
  static constexpr std::array values{"eleven_point", "area"};
};

namespace tandem::tasks {

const options::Schema& DetectionOptions::Data::schema() {
  static const options::Schema schema =
      options::Describe<Data>()
          .include(&Data::set)
          .key("image_size", &Data::image_size,
               "side in pixels that images from files are resized to, ignoring aspect ratio: the model's",
               {.min = 16, .max = 8192})
          .key("channels", &Data::channels, "channels of images from files: 3, or 1 for grey",
               {.min = 1, .max = 3})
          .key("augment", &Data::augment,
               "transforms of each training image, in order, before it is resized; geometric ones also "
               "transform its boxes; evaluation keeps those that are not random")
          .rule("channels", "must be 1 or 3", [](const Data& o) { return o.channels != 2; })
          .short_key("name");
  return schema;
}

const options::Schema& DetectionOptions::Postprocess::schema() {
  static const options::Schema schema =
      options::Describe<Postprocess>()
          .key("score", &Postprocess::score, "minimum class probability of a box (exclusive)",
               {.min = 0, .max = 1})
          .key("per_class", &Postprocess::per_class,
               "highest-scoring candidates per class and image before NMS", {.min = 1, .max = 1000000})
          .key("nms", &Postprocess::nms, "NMS IoU threshold", {.min = 0, .max = 1})
          .key("keep", &Postprocess::keep, "maximum boxes per image", {.min = 1, .max = 1000000});
  return schema;
}

models::SuppressionOptions DetectionOptions::Postprocess::suppression() const {
  return {.score = score, .per_class = per_class, .overlap = nms, .keep = keep};
}

const options::Schema& DetectionOptions::Evaluation::schema() {
  static const options::Schema schema =
      options::Describe<Evaluation>()
          .key("voc", &Evaluation::voc,
               "average precision for mAP: eleven_point (VOC 2007) or area (from 2010 on)")
          .key("results", &Evaluation::results,
               "write the detections of the last evaluation in the formats of COCO's and VOC's tools: "
               "detections.json and detections/comp4_det_…txt")
          .key("examples", &Evaluation::examples,
               "number of images that each evaluation draws with true and detected boxes; 0: none",
               {.min = 0, .max = 64})
          .key("shown", &Evaluation::shown, "minimum score of drawn and printed boxes", {.min = 0, .max = 1});
  return schema;
}

const MetricKinds& DetectionOptions::metrics() {
  static const MetricKinds kinds = [] {
    MetricKinds all;
    for (const std::string_view name : metrics::kCocoFigures)
      all.emplace_back(name, MetricKind{.share = true, .greater_is_better = true});
    all.emplace_back("mAP", MetricKind{.share = true, .greater_is_better = true});
    all.emplace_back("loss", MetricKind{});
    return all;
  }();
  return kinds;
}

options::Schema DetectionOptions::schema() {
  using Options = DetectionOptions;
  return options::Describe<Options>()
      .key("model", &Options::model, "the model", {.required = true})
      .key("data", &Options::data, "training data", {.required = true})
      .key("loss", &Options::loss, "SSD's multibox loss")
      .key("postprocess", &Options::postprocess, "postprocessing of the model's boxes")
      .key("eval", &Options::eval, "evaluation during training")
      .key("checkpoint", &Options::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
