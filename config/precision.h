// Conversion of the configured precision to amp::Precision.
#pragma once

#include "amp/precision.h"
#include "config/config.h"

namespace tandem::config {

// Throws UserError for contradicting keys.
amp::Precision precision_of(const PrecisionConfig& config);

}  // namespace tandem::config
