#include "tasks/registry.h"

#include "tasks/classification/family.h"
#include "tasks/gan/family.h"

namespace tandem::tasks {

const FamilyOfTasks& families() {
  static const FamilyOfTasks all(
      {.what = "task", .help = "what is learnt", .fallback = "classification", .discriminator = "task"},
      {classification_family(), gan_family()});
  return all;
}

}  // namespace tandem::tasks
