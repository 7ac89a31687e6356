#include "tasks/registry.h"

#include <algorithm>

#include "core/error.h"
#include "tasks/classification/family.h"

namespace tandem::tasks {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families{classification_family()};
  return families;
}

const Family& family_of(const config::Config& config) {
  const auto found = std::ranges::find(all_families(), config.task, &Family::name);
  ensure(found != all_families().end(), "task", "there is no family \"{}\"", config.task);
  return *found;
}

DataPtr open_data(const config::Config& config, SampleReport report) {
  return family_of(config).open(config, std::move(report));
}
DataPtr describe_data(const config::Config& config) { return family_of(config).describe(config); }
DataPtr recall_data(const config::Config& config, const Json& description) {
  return family_of(config).recall(config, description);
}
std::unique_ptr<Task> make_task(const config::Loaded& loaded, DataPtr data) {
  return family_of(loaded.config).make(loaded, std::move(data));
}

}  // namespace tandem::tasks
