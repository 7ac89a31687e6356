// Detection: boxes and classes of objects in images. Metrics over the whole set: AP, AP50, AP75, AP_small,
// AP_medium, AP_large, AR1, AR10, AR100, AR_small, AR_medium, AR_large (COCO's, if the set has such objects),
// mAP (VOC's), loss.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry detection_family();

}  // namespace tandem::tasks
