#include "tasks/text_classification/options.h"

namespace tandem::tasks {

const options::Schema& TextClassificationOptions::Data::schema() {
  static const options::Schema schema = options::Describe<Data>().include(&Data::text).short_key("name");
  return schema;
}

options::Schema TextClassificationOptions::schema() {
  using Options = TextClassificationOptions;
  return options::Describe<Options>()
      .key("model", &Options::model, "the network", {.required = true})
      .key("data", &Options::data, "the texts to learn", {.required = true})
      .key("loss", &Options::loss, "the loss")
      .key("eval", &Options::eval, "evaluation during training")
      .key("checkpoint", &Options::checkpoint, "what is saved, and when");
}

}  // namespace tandem::tasks
