#include "tasks/segmentation/options.h"

#include "tasks/class_figures.h"

namespace tandem::tasks {

const options::Schema& SegmentationOptions::Data::schema() {
  static const options::Schema schema =
      options::Describe<Data>()
          .include(&Data::set)
          .key("augment", &Data::augment,
               "transforms of each training image, in order; geometric ones also transform its mask; "
               "evaluation keeps those that are not random")
          .short_key("name");
  return schema;
}

const options::Schema& SegmentationOptions::Evaluation::schema() {
  static const options::Schema schema =
      options::Describe<Evaluation>()
          .key("confusion", &Evaluation::confusion, "write confusion.csv after the last evaluation")
          .key("examples", &Evaluation::examples,
               "number of images that each evaluation draws beside their true and predicted masks; 0: none",
               {.min = 0, .max = 64});
  return schema;
}

const MetricKinds& SegmentationOptions::metrics() {
  static const MetricKinds kinds =
      with_class_figures({{"miou", {.share = true, .greater_is_better = true}},
                          {"dice", {.share = true, .greater_is_better = true}},
                          {"pixel_accuracy", {.share = true, .greater_is_better = true}},
                          {"loss", {}}});
  return kinds;
}

options::Schema SegmentationOptions::schema() {
  return options::Describe<SegmentationOptions>()
      .key("model", &SegmentationOptions::model, "the model", {.required = true})
      .key("data", &SegmentationOptions::data, "training data", {.required = true})
      .key("loss", &SegmentationOptions::loss, "the loss")
      .key("eval", &SegmentationOptions::eval, "evaluation during training")
      .key("checkpoint", &SegmentationOptions::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
