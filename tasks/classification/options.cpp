#include "tasks/classification/options.h"

#include "tasks/class_figures.h"

namespace tandem::tasks {

const options::Schema& ClassificationOptions::Evaluation::schema() {
  static const options::Schema schema = options::Describe<Evaluation>().key(
      "confusion", &Evaluation::confusion, "write confusion.csv after the last evaluation");
  return schema;
}

const MetricKinds& ClassificationOptions::metrics() {
  static const MetricKinds kinds =
      with_class_figures({{"accuracy", {.share = true, .greater_is_better = true}},
                          {"top5", {.share = true, .greater_is_better = true}},
                          {"loss", {}}});
  return kinds;
}

options::Schema ClassificationOptions::schema() {
  return options::Describe<ClassificationOptions>()
      .key("model", &ClassificationOptions::model, "the model", {.required = true})
      .key("data", &ClassificationOptions::data, "training data", {.required = true})
      .key("loss", &ClassificationOptions::loss, "the loss")
      .key("eval", &ClassificationOptions::eval, "evaluation during training")
      .key("checkpoint", &ClassificationOptions::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
