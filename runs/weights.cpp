#include "runs/weights.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "files/input.h"
#include "files/safetensors.h"
#include "models/weights.h"
#include "runs/checkpoint_store.h"
#include "runs/checkpoints.h"

namespace tandem::runs {

namespace fs = std::filesystem;

namespace {

// The checkpoint that best, last or step-N names; absent if there is none.
std::optional<std::string> checkpoint_named(const CheckpointStore& store, const std::string& which) {
  if (which == "best") return store.pointed_at("best");
  if (which != "last") return which;
  std::vector<std::string> names = store.newest_first();
  while (names.size() > 1 && store.damage(names.front())) names.erase(names.begin());
  return names.empty() ? std::optional<std::string>() : names.front();
}

std::string whole_weights(const CheckpointStore& store, const std::string& checkpoint) {
  const auto damage = store.damage(checkpoint);
  require(!damage, "", "{} is damaged: {}; choose other weights", store.path(checkpoint).string(),
          damage.value_or(""));
  return (store.path(checkpoint) / kWeightsFile).string();
}

}  // namespace

std::optional<std::string> weights_at(const std::string& path) {
  const files::Kind kind = files::kind_of(path);
  if (kind == files::Kind::absent) return {};
  if (kind == files::Kind::folder && RunDirectory::is_run(path))
    return weights_path(RunDirectory::open(path), "best");
  const fs::path place = fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
  const CheckpointStore store(place.parent_path());
  const std::string name = place.filename().string();
  if (kind != files::Kind::folder) {
    const bool points = name == "best" || name == "latest";
    const auto checkpoint = points ? store.pointed_at(name) : std::nullopt;
    return checkpoint ? whole_weights(store, *checkpoint) : path;
  }
  require(CheckpointStore::is_name(name), "",
          "{}: is a folder, and neither a run nor a checkpoint (step-N); name one of these or a .safetensors "
          "file",
          path);
  return whole_weights(store, name);
}

std::string weights_path(const RunDirectory& run, const std::string& which) {
  const bool of_run = which == "best" || which == "last" || CheckpointStore::is_name(which);
  const CheckpointStore store(run.checkpoints());
  std::optional<std::string> found;
  if (!of_run) {
    found = weights_at(which);
  } else if (const auto name = checkpoint_named(store, which);
             name && files::kind_of(store.path(*name)) == files::Kind::folder) {
    found = whole_weights(store, *name);
  }
  require(found.has_value(), "", "{}: has no weights \"{}\"; there are best, last, step-N, or a path{}",
          run.path().string(), which,
          of_run && files::kind_of(which) == files::Kind::file ? fmt::format(", as ./{} is one", which) : "");
  return *found;
}

Weights weights_of(const RunDirectory& run, const std::string& which) {
  Weights weights = weights_in(weights_path(run, which));
  if (!weights.data.is_null()) return weights;
  const CheckpointStore store(run.checkpoints());
  if (const auto last = checkpoint_named(store, "last"); last && !store.damage(*last))
    weights.data = saved_data((store.path(*last) / kWeightsFile).string());
  return weights;
}

Weights weights_in(const std::string& file) {
  return {.path = file, .data = has_saved_data(safetensors::File(file)) ? saved_data(file) : config::Json()};
}

void load_weights(const std::string& file, nn::Module& model) {
  const safetensors::File opened(file);
  const std::string differences = models::compare_weights(model, opened).differences();
  require(differences.empty(), "",
          "{}: are not the weights of the model of this configuration and its data: {}", file, differences);
  models::load_weights(model, opened);
}

}  // namespace tandem::runs
