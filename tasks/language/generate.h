// Text that a language model writes.
#pragma once

#include "models/causal_model.h"
#include "tasks/language/data.h"
#include "tasks/task.h"

namespace tandem::tasks {

// Goes on from the request's prompt ("-": standard input), or from the start of a line, and prints prompt and
// text: `count` words or characters, ends of lines among them, or fewer where `stop` comes, which is left
// out. With `json` an object with "prompt", "text", "unknown" (words of the prompt that the model does not
// know) and the options that took part. Throws UserError for options out of range.
void write_text(models::CausalModel& model, const LanguageData& data, const PredictRequest& request,
                Device device);

}  // namespace tandem::tasks
