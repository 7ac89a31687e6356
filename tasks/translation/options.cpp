#include "tasks/translation/options.h"

namespace tandem::tasks {

const options::Schema& TranslationOptions::Data::schema() {
  static const options::Schema schema =
      options::Describe<Data>()
          .include(&Data::pairs)
          .key("batch_tokens", &Data::batch_tokens,
               "pieces of a batch on its longer side, including padding, so that batches of short pairs have "
               "more of them; 0: batch_size pairs of any length",
               {.min = 0, .max = 1 << 24})
          .short_key("name");
  return schema;
}

const options::Schema& TranslationOptions::Loss::schema() {
  static const options::Schema schema = options::Describe<Loss>().key(
      "label_smoothing", &Loss::label_smoothing, "share of a target distributed over all pieces",
      {.min = 0.0, .max = 1.0, .open_max = true});
  return schema;
}

const options::Schema& TranslationOptions::Evaluation::schema() {
  static const options::Schema schema =
      options::Describe<Evaluation>()
          .key("beam", &Evaluation::beam, "beam width; 1: greedy search", {.min = 1, .max = 1024})
          .key("max_length", &Evaluation::max_length,
               "maximum pieces of a translation, including its end; auto: data.max_length + 1",
               {.min = 1, .max = 1 << 20, .keyword = "auto"})
          .key("length_penalty", &Evaluation::length_penalty,
               "length penalty (GNMT's α): larger prefers longer translations; 0: none",
               {.min = 0.0, .max = 10.0})
          .key("coverage_penalty", &Evaluation::coverage_penalty,
               "coverage penalty (GNMT's β): prefers translations that attend to the whole source; 0: none; "
               "auto: 0.1 if the model returns attention weights, else 0",
               {.min = 0.0, .max = 10.0, .keyword = "auto"})
          .key("translations", &Evaluation::translations, "write translations.tsv after the last evaluation");
  return schema;
}

const MetricKinds& TranslationOptions::metrics() {
  static const MetricKinds kinds{{"loss", {}},
                                 {"perplexity", {}},
                                 {"bleu", {.greater_is_better = true}},
                                 {"piece_error_rate", {.share = true}},
                                 {"text_error_rate", {.share = true}}};
  return kinds;
}

options::Schema TranslationOptions::schema() {
  using Options = TranslationOptions;
  return options::Describe<Options>()
      .key("model", &Options::model, "the model", {.required = true})
      .key("data", &Options::data, "training pairs", {.required = true})
      .key("loss", &Options::loss, "the loss")
      .key("eval", &Options::eval, "evaluation during training, and beam search")
      .key("checkpoint", &Options::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
