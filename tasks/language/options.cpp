#include "tasks/language/options.h"

namespace tandem::tasks {

const options::Schema& LanguageOptions::Data::schema() {
  static const options::Schema schema =
      options::Describe<Data>()
          .include(&Data::text)
          .key("steps", &Data::steps,
               "words of a stream per batch (length of truncated BPTT), or of a window for models without a "
               "state; "
               "batch_size is the number of streams or windows; auto: 35, or the model's context",
               {.min = 1, .max = 1 << 20, .keyword = "auto"})
          .key("random_steps", &Data::random_steps,
               "draw a random number of steps around `steps` for each batch; its learning rate is multiplied "
               "by the number / `steps` (AWD-LSTM)")
          .short_key("name");
  return schema;
}

const options::Schema& LanguageOptions::Loss::schema() {
  static const options::Schema schema =
      options::Describe<Loss>()
          .key("label_smoothing", &Loss::label_smoothing, "share of a target distributed over all words",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("ar", &Loss::ar,
               "weight of the mean square of the last layer's output, after dropout, in training (AWD-LSTM: "
               "2)",
               {.min = 0.0, .max = 1e6})
          .key("tar", &Loss::tar,
               "weight of the mean square of its change between steps, before dropout (AWD-LSTM: 1)",
               {.min = 0.0, .max = 1e6});
  return schema;
}

const MetricKinds& LanguageOptions::metrics() {
  static const MetricKinds kinds{{"perplexity", {}},
                                 {"loss", {}},
                                 {"accuracy", {.share = true, .greater_is_better = true}},
                                 {kBitsPerCharacter, {}},
                                 {kBitsPerByte, {}}};
  return kinds;
}

options::Schema LanguageOptions::schema() {
  return options::Describe<LanguageOptions>()
      .key("model", &LanguageOptions::model, "the model", {.required = true})
      .key("data", &LanguageOptions::data, "training text", {.required = true})
      .key("loss", &LanguageOptions::loss, "the loss")
      .key("checkpoint", &LanguageOptions::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
