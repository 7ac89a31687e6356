#include "tasks/registry.h"

#include "tasks/classification/family.h"
#include "tasks/detection/family.h"
#include "tasks/gan/family.h"
#include "tasks/language/family.h"
#include "tasks/segmentation/family.h"
#include "tasks/text_classification/family.h"
#include "tasks/translation/family.h"

namespace tandem::tasks {

TaskRegistry& registry() {
  static TaskRegistry registry(
      {.what = "task", .help = "kind of task", .fallback = "classification", .discriminator = "task"},
      {classification_family, segmentation_family, detection_family, gan_family, language_family,
       text_classification_family, translation_family});
  return registry;
}

}  // namespace tandem::tasks
