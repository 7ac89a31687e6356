#include "runs/run_data.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/input.h"
#include "runs/checkpoints.h"
#include "runs/run_directory.h"
#include "tasks/vocabularies.h"

namespace tandem::runs {

namespace {

bool takes_vocabulary(const config::Config& config) {
  return config.init_from && config.init_from->takes_vocabulary();
}

std::shared_ptr<const config::Json> words_of(const config::Config& config, const std::string& weights) {
  if (!takes_vocabulary(config)) return nullptr;
  return std::make_shared<const config::Json>(
      saved_data(weights.empty() ? initial_weights(config) : weights));
}

tasks::DataPtr with_words(tasks::DataPtr data, const config::Config& config) {
  require(!takes_vocabulary(config) || dynamic_cast<const tasks::HasVocabularies*>(data.get()), "",
          "init_from.vocabulary: a task of {} has no vocabulary; leave the key out", config.task.name());
  return data;
}

}  // namespace

std::string initial_weights(const config::Config& config) {
  std::string path = config.init_from->path;
  if (files::kind_of(path) == files::Kind::folder) path = weights_path(RunDirectory::open(path), "best");
  require(files::kind_of(path) != files::Kind::absent, "", "init_from.path: {}: no such file", path);
  return path;
}

tasks::DataPtr open_data(const config::Config& config, tasks::SampleReport report,
                         const std::string& weights) {
  return with_words(config::open_data(config, std::move(report), words_of(config, weights)), config);
}

tasks::DataPtr describe_data(const config::Config& config) {
  return with_words(config::describe_data(config, words_of(config, "")), config);
}

}  // namespace tandem::runs
