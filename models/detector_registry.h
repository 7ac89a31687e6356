// Registered detectors: "ssd_small", "ssd300_resnet18" to "ssd300_resnet50", "ssd300_vgg16", "ssd512_vgg16",
// "ssdlite320_mobilenet_v3".
#pragma once

#include <vector>

#include "models/registry.h"

namespace tandem::models {

std::vector<ModelInfo> detector_models();

}  // namespace tandem::models
