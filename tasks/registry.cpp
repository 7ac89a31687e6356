#include "tasks/registry.h"

#include "tasks/families.h"

namespace tandem::tasks {

TaskRegistry& registry() {
  static TaskRegistry registry(
      {.what = "task", .help = "kind of task", .fallback = "classification", .discriminator = "task"},
      {classification_family, segmentation_family, detection_family, gan_family, language_family,
       masked_language_family, question_answering_family, text_classification_family, translation_family});
  return registry;
}

}  // namespace tandem::tasks
