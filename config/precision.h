// The precision of a configuration as the library takes it.
#pragma once

#include "amp/precision.h"
#include "config/config.h"

namespace tandem::config {

// Throws UserError for parts that contradict each other.
amp::Precision precision_of(const PrecisionConfig& config);

}  // namespace tandem::config
