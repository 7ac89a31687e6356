// Detection: boxes of objects in images, each of a class. Metrics, over the whole set that counts: AP, AP50,
// AP75, AP_small, AP_medium, AP_large, AR1, AR10, AR100, AR_small, AR_medium, AR_large (COCO's; those that
// there are objects for), mAP (VOC's), loss.
#pragma once

#include "tasks/registry.h"

namespace tandem::tasks {

TaskRegistry::Entry detection_family();

}  // namespace tandem::tasks
