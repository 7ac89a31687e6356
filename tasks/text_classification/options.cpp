#include "tasks/text_classification/options.h"

namespace tandem::tasks {

const options::Schema& TextClassificationOptions::Data::schema() {
  static const options::Schema schema = options::Describe<Data>().include(&Data::text).short_key("name");
  return schema;
}

options::Schema TextClassificationOptions::schema() {
  using Options = TextClassificationOptions;
  return options::Describe<Options>()
      .key("model", &Options::model, "the model", {.required = true})
      .key("data", &Options::data, "training texts", {.required = true})
      .key("loss", &Options::loss, "the loss")
      .key("eval", &Options::eval, "evaluation during training")
      .key("checkpoint", &Options::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
