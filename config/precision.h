// What the precision part of a configuration says to the library.
#pragma once

#include "amp/precision.h"
#include "config/config.h"

namespace tandem::config {

// Throws UserError for parts that contradict each other.
amp::Precision precision_of(const PrecisionConfig& config);

}  // namespace tandem::config
