#include "tasks/gan/options.h"

namespace tandem::tasks {

const options::Schema& GanOptions::Evaluation::schema() {
  static const options::Schema schema =
      options::Describe<Evaluation>()
          .key("features", &Evaluation::features,
               "classifier for the features of the Fréchet distance: a run that trained one on the same "
               "data, or a lenet5 weights file; null: Tandem's own")
          .key("samples", &Evaluation::samples,
               "images to generate for an evaluation, at most as many as the split has", {.min = 2});
  return schema;
}

const MetricKinds& GanOptions::metrics() {
  static const MetricKinds kinds{
      {"fd_lenet", {}}, {"fd_classifier", {}}, {"class_entropy", {.greater_is_better = true}}};
  return kinds;
}

options::Schema GanOptions::schema() {
  return options::Describe<GanOptions>()
      .key("model", &GanOptions::model, "the models", {.required = true})
      .key("data", &GanOptions::data, "training data", {.required = true})
      .key("eval", &GanOptions::eval, "evaluation during training")
      .key("checkpoint", &GanOptions::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
