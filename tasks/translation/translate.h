// Translation of texts for `tandem predict`.
#pragma once

#include "models/sequence_to_sequence.h"
#include "tasks/translation/search.h"

namespace tandem::tasks {

// An input that names a file is replaced by its lines, other inputs are texts. Prints one line for each, or
// with `top` several translations with their scores, or with `json` an object with "input", "unknown" (pieces
// outside the vocabulary), and "translations", each with "text", "score", "log_probability" and "ended"
// (before the maximum length). The model must be on `device`, in evaluation mode. Throws UserError for
// unreadable files.
void translate(models::SequenceToSequence& model, const TranslationData& data, const BeamOptions& options,
               const PredictRequest& request, Device device);

}  // namespace tandem::tasks
