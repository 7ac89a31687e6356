// Prediction of masked words.
#pragma once

#include "models/masked_model.h"
#include "tasks/masked_language/data.h"

namespace tandem::tasks {

// Prints the most likely pieces at each [MASK] of the inputs, which are texts or files with a text per line.
// With `json` each answer also has "mask", the number of the [MASK] in its text, from 0, and "unknown", the
// words outside the vocabulary. The model must be on `device`, in evaluation mode. Throws UserError for
// unreadable files, and for texts without [MASK] or longer than the model's context.
void fill_masks(models::MaskedModel& model, const MaskedLanguageData& data, const PredictRequest& request,
                Device device);

}  // namespace tandem::tasks
