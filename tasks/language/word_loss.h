// The loss and the figures of a language model, by whichever softmax it has.
#pragma once

#include "models/language_model.h"
#include "tasks/language/chunk.h"
#include "tasks/task.h"

namespace tandem::tasks {

struct WordLossOptions {
  double label_smoothing = 0.0;  // of the full softmax
  OutputsReady ready{};
};

// What training minimises, from what the model's decoder sees: the mean over the targets of the batch's
// chunk. Of the sampled softmax the batch has the fields of a CandidateSource. Throws UserError when it has
// not.
Tensor word_loss(models::LanguageModel& model, const Tensor& y, const datasets::Batch& batch,
                 const WordLossOptions& options);

struct WordFigures {
  Tensor nll;    // Σ -ln p of the targets, with the probabilities of all words
  Tensor guess;  // i64 [T,N], the likeliest words
};
WordFigures word_figures(models::LanguageModel& model, const Tensor& y, const Tensor& target);

}  // namespace tandem::tasks
