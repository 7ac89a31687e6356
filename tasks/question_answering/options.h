// Options of a question-answering task.
#pragma once

#include "data/chosen_set.h"
#include "data/text/questions.h"
#include "models/model_options.h"
#include "tasks/metrics.h"
#include "tasks/sections.h"

namespace tandem::tasks {

struct QuestionAnsweringOptions {
  struct Data {
    struct Common {
      datasets::CodecChoice codec;
      static const options::Schema& schema();
    };
    datasets::ChosenSet<datasets::question_sets, Common> questions;
    Index max_question = 64, stride = 128;  // datasets::QuestionWindowOptions
    static const options::Schema& schema();
  };
  struct Evaluation {
    Index max_answer = 30;        // pieces
    Index n_best = 20;            // answers that the softmax of probabilities is over
    double null_threshold = 0.0;  // margin of "no answer" over the best answer
    bool predictions = false;     // write predictions.json
    static const options::Schema& schema();
  };

  models::ModelOptions model;
  Data data;
  Evaluation eval;
  Checkpoint<QuestionAnsweringOptions> checkpoint;
  static options::Schema schema();
  // Metrics of evaluations.
  static const MetricKinds& metrics();
};

}  // namespace tandem::tasks
