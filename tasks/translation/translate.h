// Prints translations of texts.
#pragma once

#include "models/sequence_to_sequence.h"
#include "tasks/translation/search.h"

namespace tandem::tasks {

// An input that names a file stands for its lines, any other one for itself. A line is printed for each, or
// with `top` so many translations with their scores, and with `json` an object that has "input", "unknown",
// pieces of it that the model does not know, and "translations", of each its "text", "score",
// "log_probability" and whether it "ended" below the greatest length. The model lies on `device`, in
// evaluation mode. Throws UserError for files that cannot be read.
void translate(models::SequenceToSequence& model, const TranslationData& data, const BeamOptions& options,
               const PredictRequest& request, Device device);

}  // namespace tandem::tasks
