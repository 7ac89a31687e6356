#include "train/checkpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/build_info.h"
#include "train/json_text.h"
#include "train/weights.h"

namespace tandem::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDataKey = "tandem.data";
constexpr const char* kStateKey = "tandem.state";

config::Json json_in(const safetensors::File& file, const char* key) {
  const auto found = file.metadata().find(key);
  require(found != file.metadata().end(), "", "{}: has no \"{}\" in its metadata; it was not saved by a run",
          file.path(), key);
  const auto json = parse_json<config::Json>(found->second, file.path(), fmt::format("its \"{}\"", key),
                                             {.items = std::size_t{1} << 20});
  require(json.is_object(), "", "{}: its \"{}\" is damaged", file.path(), key);
  return json;
}

// The N of epoch-N.safetensors; 0 for other files.
std::int64_t epoch_of(const fs::path& path) {
  std::int64_t epoch = 0;
  const std::string stem = path.stem().string();
  if (path.extension() != ".safetensors" || !stem.starts_with("epoch-")) return 0;
  for (const char c : stem.substr(6)) {
    if (c < '0' || c > '9' || epoch > 1'000'000'000) return 0;
    epoch = 10 * epoch + (c - '0');
  }
  return epoch;
}

}  // namespace

Checkpoints::Checkpoints(RunDirectory directory, std::int64_t keep, DataDescription data)
    : directory_(std::move(directory)), keep_(keep), data_(std::move(data)) {}

void Checkpoints::save(const std::string& path, nn::Module& model, std::int64_t epoch,
                       std::int64_t step) const {
  save_weights(model, path,
               {{"tandem.version", version()},
                {"tandem.epoch", std::to_string(epoch)},
                {"tandem.step", std::to_string(step)},
                {kDataKey, to_json(data_).dump(-1, ' ', false, config::Json::error_handler_t::replace)}});
}

std::string Checkpoints::save_last(nn::Module& model, std::int64_t epoch, std::int64_t step) {
  const std::string path = directory_.checkpoint("last");
  save(path, model, epoch, step);
  return path;
}

std::string Checkpoints::save_best(nn::Module& model, std::int64_t epoch, std::int64_t step) {
  const std::string path = directory_.checkpoint("best");
  save(path, model, epoch, step);
  return path;
}

std::string Checkpoints::save_epoch(nn::Module& model, std::int64_t epoch, std::int64_t step) {
  const std::string path = directory_.checkpoint(fmt::format("epoch-{}", epoch));
  save(path, model, epoch, step);
  // `last` is another name of the same bytes; where the file system has no links it is written again.
  const std::string last = directory_.checkpoint("last"), beside = last + ".tmp";
  std::error_code error;
  fs::remove(beside, error);
  fs::create_hard_link(path, beside, error);
  if (!error) fs::rename(beside, last, error);
  if (error) save(last, model, epoch, step);
  prune();
  return path;
}

void Checkpoints::prune() const {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_.checkpoints(), error)) {
    if (epoch_of(entry.path()) > 0) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return epoch_of(a) > epoch_of(b); });
  for (std::size_t i = static_cast<std::size_t>(keep_); i < files.size(); ++i) fs::remove(files[i], error);
}

void Checkpoints::save_state(optim::Step& step, const RunState& state) {
  config::Json json{{"version", version()},
                    {"epoch", state.epoch},
                    {"position", state.position},
                    {"best_epoch", state.best_epoch},
                    {"diagnosed", state.diagnosed}};
  json["best"] = state.best ? config::Json(*state.best) : config::Json();
  safetensors::write(directory_.checkpoint("state"), step.state(), {{kStateKey, json.dump()}});
}

RunState Checkpoints::load_state(optim::Step& step) {
  const safetensors::File file(directory_.checkpoint("state"));
  const config::Json json = json_in(file, kStateKey);
  RunState state;
  const auto count = [&](const char* key, std::int64_t least) {
    const auto& value = json.at(key);
    const bool sound = value.is_number_integer() && value >= least && value <= (std::int64_t{1} << 53);
    require(sound, "", "{}: its state is damaged: \"{}\" is {}, expected a count of at least {}", file.path(),
            key, value.dump(), least);
    return value.get<std::int64_t>();
  };
  try {
    state.epoch = count("epoch", 1);
    state.position = count("position", 0);
    state.best_epoch = count("best_epoch", 0);
    state.diagnosed = count("diagnosed", 0);
    if (!json.at("best").is_null()) state.best = json.at("best").get<double>();
  } catch (const nlohmann::json::exception& error) {
    throw UserError("", fmt::format("{}: its state is damaged: {}", file.path(), error.what()));
  }
  std::vector<optim::NamedTensor> tensors;
  for (const auto& entry : file.entries()) tensors.emplace_back(entry.name, file.read(entry));
  step.load_state(tensors);
  return state;
}

std::string weights_path(const RunDirectory& run, const std::string& which) {
  std::error_code error;
  if (which.find('/') == std::string::npos) {
    const std::string path = run.checkpoint(which);
    if (fs::is_regular_file(path, error)) return path;
  }
  require(fs::is_regular_file(which, error), "",
          "{}: has no weights \"{}\"; there are best, last, epoch-N, or the path of a file",
          run.path().string(), which);
  return which;
}

std::string load_run_weights(const RunDirectory& run, const std::string& which, nn::Module& model) {
  const std::string path = weights_path(run, which);
  load_weights(model, path);
  return path;
}

DataDescription saved_data(const std::string& weights) {
  const safetensors::File file(weights);
  return data_description(json_in(file, kDataKey));
}

}  // namespace tandem::train
