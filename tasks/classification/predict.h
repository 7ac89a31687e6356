// Prediction of the classes of samples in files.
#pragma once

#include "tasks/classification/options.h"
#include "tasks/sample_data.h"

namespace tandem::tasks {

// The model must be on `device`, in evaluation mode. Throws UserError naming a file that cannot be used.
void print_predictions(nn::Module& model, const SampleData& data, const ClassificationOptions::Data& options,
                       const PredictRequest& request, Device device);

}  // namespace tandem::tasks
