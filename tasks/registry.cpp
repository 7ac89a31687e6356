#include "tasks/registry.h"

#include "tasks/classification/family.h"

namespace tandem::tasks {

const FamilyOfTasks& families() {
  static const FamilyOfTasks all(
      {.what = "task", .help = "what is learnt", .fallback = "classification", .discriminator = "task"},
      {classification_family()});
  return all;
}

}  // namespace tandem::tasks
