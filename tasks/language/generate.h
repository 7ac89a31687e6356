// Text generation by a language model.
#pragma once

#include "models/causal_model.h"
#include "tasks/language/data.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Continues the request's prompt ("-": standard input), or starts a line, and prints prompt and text: `count`
// words or characters including line ends, or fewer up to `stop`, which is omitted. With `json`: an object
// with "prompt", "text", "unknown" (words of the prompt outside the vocabulary) and the options in use.
// Throws UserError for options out of range.
void write_text(models::CausalModel& model, const LanguageData& data, const PredictRequest& request,
                Device device);

}  // namespace tandem::tasks
