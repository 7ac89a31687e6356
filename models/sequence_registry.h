// Registered sequence models: "language_model", "text_classifier", "encoder_decoder".
#pragma once

#include <vector>

#include "models/registry.h"

namespace tandem::models {

std::vector<ModelInfo> sequence_models();

}  // namespace tandem::models
