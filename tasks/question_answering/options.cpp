#include "tasks/question_answering/options.h"

#include "data/limits.h"

namespace tandem::tasks {

const options::Schema& QuestionAnsweringOptions::Data::Common::schema() {
  static const options::Schema schema =
      options::Describe<Common>()
          .key("codec", &Common::codec,
               "codec of the texts: wordpiece, the only one that gives the offsets of pieces in a text",
               {.required = true})
          .rule("codec", "gives no offsets of its pieces in a text; use wordpiece",
                [](const Common& o) { return o.codec.name() == "wordpiece"; });
  return schema;
}

const options::Schema& QuestionAnsweringOptions::Data::schema() {
  static const options::Schema schema =
      options::Describe<Data>()
          .include(&Data::questions)
          .key("max_question", &Data::max_question,
               "maximum number of pieces of a question; longer ones are cut",
               {.min = 1, .max = datasets::kMaxPieces})
          .key("stride", &Data::stride,
               "distance between the starts of neighbouring windows in pieces, for contexts that do not fit "
               "model.context",
               {.min = 1, .max = datasets::kMaxPieces})
          .short_key("name");
  return schema;
}

const options::Schema& QuestionAnsweringOptions::Evaluation::schema() {
  static const options::Schema schema =
      options::Describe<Evaluation>()
          .key("max_answer", &Evaluation::max_answer, "maximum number of pieces of an answer",
               {.min = 1, .max = datasets::kMaxPieces})
          .key("n_best", &Evaluation::n_best,
               "number of best answers; probabilities are a softmax over their scores",
               {.min = 1, .max = 1 << 20})
          .key("null_threshold", &Evaluation::null_threshold,
               "predict \"no answer\" if the score of [CLS] exceeds that of the best answer by more than "
               "this; needs unanswerable questions in the training data")
          .key("predictions", &Evaluation::predictions, "write predictions.json after the last evaluation");
  return schema;
}

const MetricKinds& QuestionAnsweringOptions::metrics() {
  static const MetricKinds kinds{{"f1", {.share = true, .greater_is_better = true}},
                                 {"exact_match", {.share = true, .greater_is_better = true}},
                                 {"loss", {}}};
  return kinds;
}

options::Schema QuestionAnsweringOptions::schema() {
  using Options = QuestionAnsweringOptions;
  return options::Describe<Options>()
      .key("model", &Options::model, "the model", {.required = true})
      .key("data", &Options::data, "training questions", {.required = true})
      .key("eval", &Options::eval, "evaluation during training, and choice of answers")
      .key("checkpoint", &Options::checkpoint, "checkpoints");
}

}  // namespace tandem::tasks
