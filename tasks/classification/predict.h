// Prints the classes of samples in files.
#pragma once

#include "tasks/classification/data.h"
#include "tasks/classification/options.h"

namespace tandem::tasks {

// The model lies on `device`, in evaluation mode. Throws UserError naming the file that cannot be taken.
void print_predictions(nn::Module& model, const ClassificationData& data,
                       const ClassificationOptions::Data& options, const PredictRequest& request,
                       Device device);

}  // namespace tandem::tasks
