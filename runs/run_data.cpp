#include "runs/run_data.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/input.h"
#include "files/safetensors.h"
#include "runs/checkpoints.h"
#include "tasks/skipped_samples.h"

namespace tandem::runs {

namespace {

bool takes_vocabulary(const config::Config& config) {
  return config.init_from && config.init_from->takes_vocabulary();
}

std::shared_ptr<const config::Json> words_for(const config::Config& config, const config::Json& like) {
  if (!takes_vocabulary(config)) return nullptr;
  return std::make_shared<const config::Json>(like.is_null() ? saved_data(initial_weights(config)) : like);
}

tasks::DataPtr with_words(tasks::DataPtr data, const config::Config& config) {
  require(!takes_vocabulary(config) || !data->vocabularies().empty(), "",
          "init_from.vocabulary: a task of {} has no vocabulary; leave the key out", config.task.name());
  return data;
}

// Description of the data of the initial weights; null if they have none. For a run, any checkpoint will do,
// since all have the same description and the best one may be damaged.
config::Json initial_description(const std::string& path) {
  const std::optional<std::string> file =
      files::kind_of(path) == files::Kind::folder && RunDirectory::is_run(path)
          ? weights_with_data(RunDirectory::open(path))
          : weights_at(path);
  if (!file || file->empty() || !has_saved_data(safetensors::File(*file))) return nullptr;
  return saved_data(*file);
}

// Missing or unsuitable weights are reported when they are loaded.
tasks::DataPtr ordered_like(tasks::DataPtr data, const config::Config& config, config::Json like,
                            std::vector<std::string>* notes) {
  try {
    if (like.is_null() && config.init_from) like = initial_description(config.init_from->path);
    if (like.is_null()) return data;
    const auto reordered = data->in_order_of(like);
    if (!reordered) return data;
    if (notes) notes->push_back(reordered->note);
    return reordered->data;
  } catch (const UserError&) {
    return data;
  }
}

}  // namespace

std::string initial_weights(const config::Config& config) {
  const std::string& path = config.init_from->path;
  const std::optional<std::string> file = weights_at(path);
  require(file.has_value(), "", "init_from.path: {}: no such file", path);
  return *file;
}

tasks::DataPtr open_data(const config::Config& config, tasks::SampleReport report, const config::Json& like,
                         std::vector<std::string>* notes) {
  tasks::DataPtr data = config::open_data(config, std::move(report), words_for(config, like));
  return ordered_like(with_words(std::move(data), config), config, like, notes);
}

tasks::DataPtr describe_data(const config::Config& config, const config::Json& like) {
  tasks::DataPtr data = config::describe_data(config, words_for(config, like));
  return ordered_like(with_words(std::move(data), config), config, like, nullptr);
}

tasks::DataPtr data_of(const config::Config& config, const Weights& weights) {
  if (!weights.data.is_null()) return config::recall_data(config, weights.data);
  return runs::open_data(config, [](const std::string& reason) { tasks::warn_of_skipped(reason); });
}

}  // namespace tandem::runs
