#include "tasks/registry.h"

#include "core/error.h"
#include "tasks/classification/family.h"
#include "tasks/detection/family.h"
#include "tasks/gan/family.h"
#include "tasks/language/family.h"
#include "tasks/segmentation/family.h"
#include "tasks/text_classification/family.h"
#include "tasks/translation/family.h"

namespace tandem::tasks {

namespace {

struct Added {
  std::vector<TaskRegistry::Entry> entries;
  bool asked_for = false;
};

Added& added() {
  static Added added;
  return added;
}

std::vector<TaskRegistry::Entry> all_entries() {
  std::vector<TaskRegistry::Entry> entries{
      classification_family(), segmentation_family(),        detection_family(),  gan_family(),
      language_family(),       text_classification_family(), translation_family()};
  for (TaskRegistry::Entry& entry : added().entries) entries.push_back(std::move(entry));
  added().asked_for = true;
  return entries;
}

}  // namespace

const TaskRegistry& families() {
  static const TaskRegistry all(
      {.what = "task", .help = "kind of task", .fallback = "classification", .discriminator = "task"},
      all_entries());
  return all;
}

void add_family(TaskRegistry::Entry entry) {
  ensure(!added().asked_for, "task", "add_family(\"{}\") after the first use of families()", entry.name);
  added().entries.push_back(std::move(entry));
}

}  // namespace tandem::tasks
