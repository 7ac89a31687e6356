// Prints the classes of texts.
#pragma once

#include "models/text_encoder.h"
#include "tasks/text_classification/data.h"

namespace tandem::tasks {

// An input that names a file stands for its lines, any other one for itself. With `json` each answer has
// "unknown", too: words of the text that the model does not know. The model lies on `device`, in evaluation
// mode. Throws UserError for files that cannot be read.
void classify_texts(models::TextEncoder& model, const LabelledTextData& data, const PredictRequest& request,
                    Device device);

}  // namespace tandem::tasks
