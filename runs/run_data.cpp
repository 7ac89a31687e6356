#include "runs/run_data.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runs/checkpoints.h"
#include "tasks/skipped_samples.h"
#include "tasks/vocabularies.h"

namespace tandem::runs {

namespace {

bool takes_vocabulary(const config::Config& config) {
  return config.init_from && config.init_from->takes_vocabulary();
}

std::shared_ptr<const config::Json> words_for(const config::Config& config, const config::Json& words_of) {
  if (!takes_vocabulary(config)) return nullptr;
  return std::make_shared<const config::Json>(words_of.is_null() ? saved_data(initial_weights(config))
                                                                 : words_of);
}

tasks::DataPtr with_words(tasks::DataPtr data, const config::Config& config) {
  require(!takes_vocabulary(config) || dynamic_cast<const tasks::HasVocabularies*>(data.get()), "",
          "init_from.vocabulary: a task of {} has no vocabulary; leave the key out", config.task.name());
  return data;
}

}  // namespace

std::string initial_weights(const config::Config& config) {
  const std::string& path = config.init_from->path;
  const std::optional<std::string> file = weights_at(path);
  require(file.has_value(), "", "init_from.path: {}: no such file", path);
  return *file;
}

tasks::DataPtr open_data(const config::Config& config, tasks::SampleReport report,
                         const config::Json& words_of) {
  return with_words(config::open_data(config, std::move(report), words_for(config, words_of)), config);
}

tasks::DataPtr describe_data(const config::Config& config, const config::Json& words_of) {
  return with_words(config::describe_data(config, words_for(config, words_of)), config);
}

tasks::DataPtr data_of(const config::Config& config, const Weights& weights) {
  if (!weights.data.is_null()) return config::recall_data(config, weights.data);
  return runs::open_data(config, [](const std::string& reason) { tasks::warn_of_skipped(reason); });
}

}  // namespace tandem::runs
