// Text generation by a language model.
#pragma once

#include "models/causal_model.h"
#include "tasks/language/data.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Continues the request's prompt ("-": standard input), or starts a line, and prints prompt and text as it is
// generated: `count` words, characters or tokens including line ends, or fewer up to `stop`, which is
// omitted. With `json`: an object with "prompt", "text", "unknown" (words of the prompt outside the
// vocabulary) and the options in use.
//
// A word depends on seed, position and the words before it. If the model's texts are bounded by its context,
// a text that reaches the end of it goes on from its last half. Throws UserError for options out of range and
// for a prompt longer than such a context.
void write_text(models::CausalModel& model, const LanguageData& data, const PredictRequest& request,
                Device device);

}  // namespace tandem::tasks
