// Families by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace tandem::tasks {

// Told the reason for each sample that was skipped; from any thread.
using SampleReport = std::function<void(const std::string&)>;

struct Family {
  std::string name;
  std::string help;  // one line
  // Reads what the configuration names. Throws UserError for what is missing or wrong.
  DataPtr (*open)(const config::Config& config, SampleReport report);
  // The same without reading, where that is possible; else by opening it.
  DataPtr (*describe)(const config::Config& config);
  // From the description saved with weights. Throws UserError when it is damaged.
  DataPtr (*recall)(const config::Config& config, const Json& description);
  // The task with a model whose weights are drawn from the seed. Errors name the line of the configuration.
  // `loaded` is kept by reference.
  std::unique_ptr<Task> (*make)(const config::Loaded& loaded, DataPtr data);
};

// In the order documents list them.
const std::vector<Family>& all_families();
// The family of a checked configuration.
const Family& family_of(const config::Config& config);

// With that family.
DataPtr open_data(const config::Config& config, SampleReport report);
DataPtr describe_data(const config::Config& config);
DataPtr recall_data(const config::Config& config, const Json& description);
std::unique_ptr<Task> make_task(const config::Loaded& loaded, DataPtr data);

}  // namespace tandem::tasks
