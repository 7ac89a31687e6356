#include "tasks/gan/options.h"

namespace tandem::tasks {

const options::Schema& GanOptions::Evaluation::schema() {
  static const options::Schema schema =
      options::Describe<Evaluation>()
          .key(
              "features", &Evaluation::features,
              "the classifier whose features the Fréchet distance is taken of: a run that trained one on the "
              "same data, or a file of weights of a lenet5; null: the one that comes with Tandem")
          .key("samples", &Evaluation::samples,
               "images to make for an evaluation, at most as many as the split has", {.min = 2});
  return schema;
}

const MetricKinds& GanOptions::metrics() {
  static const MetricKinds kinds{
      {"fd_lenet", {}}, {"fd_classifier", {}}, {"class_entropy", {.greater_is_better = true}}};
  return kinds;
}

options::Schema GanOptions::schema() {
  return options::Describe<GanOptions>()
      .key("model", &GanOptions::model, "the networks", {.required = true})
      .key("data", &GanOptions::data, "what to train on", {.required = true})
      .key("eval", &GanOptions::eval, "evaluation during training")
      .key("checkpoint", &GanOptions::checkpoint, "what is saved, and when");
}

}  // namespace tandem::tasks
