#include "tasks/masked_language/options.h"

#include "data/limits.h"

namespace tandem::tasks {

const options::Schema& MaskedLanguageOptions::Data::Common::schema() {
  static const options::Schema schema =
      options::Describe<Common>()
          .key("codec", &Common::codec, "pieces of the texts; wordpiece, which has a [MASK]",
               {.required = true})
          .rule("codec", "has no [MASK] piece; use wordpiece",
                [](const Common& o) { return o.codec.name() == "wordpiece"; });
  return schema;
}

const options::Schema& MaskedLanguageOptions::Data::schema() {
  static const options::Schema schema =
      options::Describe<Data>()
          .include(&Data::text)
          .key("masked", &Data::masked, "most pieces of a text that are masked",
               {.min = 1, .max = datasets::kMaxPieces})
          .key(
              "mask_share", &Data::mask_share,
              "share of the pieces of a text that are masked, at least one: 80 % of them become [MASK], 10 % "
              "a random piece, 10 % stay",
              {.min = 0.0, .max = 1.0, .open_min = true})
          .short_key("name");
  return schema;
}

const MetricKinds& MaskedLanguageOptions::metrics() {
  static const MetricKinds kinds{{"loss", {}},
                                 {"perplexity", {}},
                                 {"accuracy", {.share = true, .greater_is_better = true}},
                                 {kNextAccuracy, {.share = true, .greater_is_better = true}}};
  return kinds;
}

options::Schema MaskedLanguageOptions::schema() {
  using Options = MaskedLanguageOptions;
  return options::Describe<Options>()
      .key("model", &Options::model, "the model", {.required = true})
      .key("data", &Options::data, "training text", {.required = true})
      .key("checkpoint", &Options::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
