// Prediction of the classes of texts.
#pragma once

#include "models/text_encoder.h"
#include "tasks/text_classification/data.h"

namespace tandem::tasks {

// An input that names a file is replaced by its lines, other inputs are texts. With `json` each answer also
// has "unknown", the words outside the vocabulary. The model must be on `device`, in evaluation mode. Throws
// UserError for unreadable files.
void classify_texts(models::TextEncoder& model, const LabelledTextData& data, const PredictRequest& request,
                    Device device);

}  // namespace tandem::tasks
