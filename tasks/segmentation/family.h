// Segmentation: one class for each pixel of an image. Metrics over all pixels of the set: miou (mean
// intersection over union of the classes), dice (mean Dice coefficient), pixel_accuracy, loss.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry segmentation_family();

}  // namespace tandem::tasks
