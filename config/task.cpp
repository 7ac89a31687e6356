#include "config/task.h"

#include <fmt/core.h>

#include "core/error.h"

namespace tandem::config {

namespace {

std::unique_ptr<tasks::TaskFactory> factory_of(const Config& config,
                                               std::shared_ptr<const Json> words_of = {}) {
  return tasks::registry().make(config.task, {.seed = static_cast<std::uint64_t>(config.seed),
                                              .loading = config.data,
                                              .words_of = std::move(words_of)});
}

}  // namespace

const tasks::MetricKinds& metrics(const Config& config) { return factory_of(config)->metrics(); }

tasks::DataPtr open_data(const Config& config, tasks::SampleReport report,
                         std::shared_ptr<const Json> words_of) {
  return factory_of(config, std::move(words_of))->open(std::move(report));
}

tasks::DataPtr describe_data(const Config& config, std::shared_ptr<const Json> words_of) {
  return factory_of(config, std::move(words_of))->describe();
}

tasks::DataPtr recall_data(const Config& config, const Json& description) {
  return factory_of(config)->recall(description);
}

std::unique_ptr<tasks::Task> make_task(const Loaded& loaded, tasks::DataPtr data) {
  try {
    return factory_of(loaded.config)->make(std::move(data));
  } catch (const OptionError& error) {
    throw UserError(
        "", fmt::format("{}: {}: {}", place_of(loaded.given, error.path()), error.path(), error.detail()));
  }
}

}  // namespace tandem::config
