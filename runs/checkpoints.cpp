#include "runs/checkpoints.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/build_info.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/units.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/write.h"
#include "models/weights.h"

namespace tandem::runs {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDataKey = "tandem.data";
constexpr const char* kStateKey = "state";
constexpr const char* kConfigKey = "config";
constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kRunFile = "run.json";
constexpr const char* kMetricsFile = "metrics.json";

config::Json json_in(const safetensors::File& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  require(found != file.metadata().end(), "", "{}: has no \"{}\" in its metadata; it was not saved by a run",
          file.path(), key);
  const auto json = files::parse_json<config::Json>(
      found->second, file.path(), fmt::format("its \"{}\"", key), {.items = std::size_t{1} << 20});
  require(json.is_object(), "", "{}: its \"{}\" is damaged", file.path(), key);
  return json;
}

fs::path run_file_beside(const safetensors::File& state) {
  return fs::path(state.path()).parent_path() / kRunFile;
}

// Metadata key of an entry of run.json in older checkpoints.
std::string metadata_key(const char* key) { return fmt::format("tandem.{}", key); }

// Entry "state" or "config" of a checkpoint's run.json.
config::Json run_entry(const safetensors::File& state, const char* key) {
  const fs::path path = run_file_beside(state);
  const auto text = files::read_text_if_there(path);
  if (!text) return json_in(state, metadata_key(key));
  const auto json = files::parse_json<config::Json>(*text, path.string(), "the file",
                                                    {.depth = 16, .items = std::size_t{1} << 20});
  const bool valid = json.is_object() && json.contains(key) && json[key].is_object();
  require(valid, "", "{}: its \"{}\" is damaged", path.string(), key);
  return json[key];
}

std::int64_t count_in(const config::Json& json, const char* key, const std::string& file) {
  const config::Json& value = json.at(key);
  require(value.is_number_integer() && value >= 0 && value <= (std::int64_t{1} << 53), "",
          "{}: its state is damaged: \"{}\" is {}, expected a count", file, key, value.dump());
  return value.get<std::int64_t>();
}

config::Json to_json(const optim::PlateauState& state) {
  return {{"best", state.best ? config::Json(*state.best) : config::Json()},
          {"best_epoch", state.best_epoch},
          {"epoch", state.epoch},
          {"stalled", state.stalled},
          {"factor", state.factor}};
}

config::Json to_json(const optim::AveragingState& state) {
  return {{"figures", state.figures}, {"epoch", state.epoch}, {"begun", state.begun}};
}

optim::PlateauState plateau_in(const config::Json& json, const std::string& file) {
  optim::PlateauState state;
  if (!json.at("best").is_null()) state.best = json.at("best").get<double>();
  state.best_epoch = count_in(json, "best_epoch", file);
  state.epoch = count_in(json, "epoch", file);
  state.stalled = count_in(json, "stalled", file);
  state.factor = json.at("factor").get<double>();
  require(state.factor >= 0.0 && state.factor <= 1.0, "",
          "{}: its state is damaged: the learning rate's \"factor\" is {}, expected a number in [0, 1]", file,
          state.factor);
  return state;
}

optim::AveragingState averaging_in(const config::Json& json, const std::string& file) {
  optim::AveragingState state;
  for (const config::Json& figure : json.at("figures"))
    state.figures.push_back(figure.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                             : figure.get<double>());
  state.epoch = count_in(json, "epoch", file);
  state.begun = count_in(json, "begun", file);
  return state;
}

// A number for one phase, as in older versions, else a list.
config::Json one_or_all(const std::vector<double>& losses) {
  return losses.size() == 1 ? config::Json(losses.front()) : config::Json(losses);
}

std::vector<double> epoch_losses_in(const config::Json& json) {
  const auto number = [](const config::Json& value) { return value.is_number() ? value.get<double>() : 0.0; };
  if (!json.is_array()) return {number(json)};
  std::vector<double> losses;
  for (const config::Json& value : json) losses.push_back(number(value));
  return losses;
}

}  // namespace

config::Json to_json(const RunState& state) {
  return {{"version", version()},
          {"epoch", state.epoch},
          {"position", state.position},
          {"epoch_loss", one_or_all(state.epoch_losses)},
          {"epoch_samples", state.epoch_samples},
          {"training_samples", state.training_samples},
          {"best", state.best ? config::Json(*state.best) : config::Json()},
          {"best_epoch", state.best_epoch},
          {"best_checkpoint", state.best_checkpoint},
          {"diagnosed", state.diagnosed},
          {"plateau", to_json(state.plateau)},
          {"averaging", to_json(state.averaging)}};
}

RunState run_state_in(const config::Json& json, const std::string& place) {
  RunState state;
  const auto count = [&](const char* key, std::int64_t least) {
    const auto& value = json.at(key);
    const bool valid = value.is_number_integer() && value >= least && value <= (std::int64_t{1} << 53);
    require(valid, "", "{}: its state is damaged: \"{}\" is {}, expected a count of at least {}", place, key,
            value.dump(), least);
    return value.get<std::int64_t>();
  };
  try {
    state.epoch = count("epoch", 1);
    state.position = count("position", 0);
    state.best_epoch = count("best_epoch", 0);
    state.diagnosed = count("diagnosed", 0);
    // Non-finite values are null.
    state.epoch_losses = epoch_losses_in(json.at("epoch_loss"));
    state.epoch_samples = json.at("epoch_samples");
    state.best_checkpoint = json.at("best_checkpoint");
    // Older versions did not save these.
    if (json.contains("training_samples")) state.training_samples = count("training_samples", 0);
    if (json.contains("plateau")) state.plateau = plateau_in(json["plateau"], place);
    if (json.contains("averaging")) state.averaging = averaging_in(json["averaging"], place);
    if (!json.at("best").is_null()) {
      state.best = json.at("best").get<double>();
    } else if (!state.best_checkpoint.empty()) {
      state.best = std::numeric_limits<double>::quiet_NaN();
    }
  } catch (const nlohmann::json::exception& error) {
    throw UserError("", fmt::format("{}: its state is damaged: {}", place, files::json_reason(error)));
  }
  require(state.best_checkpoint.empty() || CheckpointStore::is_name(state.best_checkpoint), "",
          "{}: its state is damaged: \"{}\" names no checkpoint", place,
          shortened(state.best_checkpoint, 100));
  return state;
}

Checkpoints::Checkpoints(const RunDirectory& directory, std::int64_t keep, config::Json data,
                         config::Json config)
    : store_(directory.checkpoints()),
      metrics_copy_(directory.metrics_copy()),
      keep_(keep),
      data_(std::move(data)),
      config_(std::move(config)) {
  store_.remove_leftovers();
}

Checkpoints::~Checkpoints() {
  if (writing_.valid()) writing_.wait();
}

void Checkpoints::take_weights(nn::Module& model, std::int64_t epoch, std::int64_t step) {
  ensure(!under_way(), "checkpoint", "step {} is saved while another save is under way", step);
  weights_.take(CheckpointStore::name_of(step), models::weights_of(model),
                {{"tandem.version", version()},
                 {"tandem.epoch", std::to_string(epoch)},
                 {"tandem.step", std::to_string(step)},
                 {kDataKey, files::json_text(data_)}});
}

void Checkpoints::save(std::int64_t step, const std::vector<optim::NamedTensor>& tensors,
                       const RunState& state, bool best, const std::optional<MetricsMark>& metrics) {
  state_.take(CheckpointStore::name_of(step), tensors);
  write(step, true, state, best, metrics);
}

void Checkpoints::save_state(std::int64_t step, const RunState& state, bool best,
                             const std::optional<MetricsMark>& metrics) {
  ensure(!under_way(), "checkpoint", "step {} is saved while another save is under way", step);
  write(step, false, state, best, metrics);
}

void Checkpoints::write(std::int64_t step, bool tensors, const RunState& state, bool best,
                        const std::optional<MetricsMark>& metrics) {
  const std::string name = CheckpointStore::name_of(step);
  RunState saved = state;
  if (best) saved.best_checkpoint = name;
  const config::Json run{{kStateKey, to_json(saved)}, {kConfigKey, config_}};
  const auto write = [this, step, name, tensors, best, spared = saved.best_checkpoint,
                      text = files::json_text(run, 2) + "\n", mark = metrics ? metrics->to_json() : ""] {
    std::vector<CheckpointStore::File> files;
    if (tensors) files = {{kWeightsFile, weights_.bytes()}, {kStateFile, state_.bytes()}};
    files.push_back({kRunFile, text});
    if (!mark.empty()) {
      std::error_code error;  // a missing copy is found on resume by the mark
      if (fs::exists(metrics_copy_, error)) files::synchronise_file(metrics_copy_);
      files.push_back({kMetricsFile, mark});
    }
    store_.write(name, files,
                 tensors ? std::vector<std::string>() : std::vector<std::string>{kWeightsFile, kStateFile});
    if (best) store_.point("best", name);
    store_.point("latest", name);
    store_.prune(keep_, {spared});
    return SavedStep{step, store_.path(name).string()};
  };
  try {
    writing_ = std::async(std::launch::async, write);
  } catch (const std::system_error&) {  // no thread available: finish() writes it
    writing_ = std::async(std::launch::deferred, write);
  }
}

bool Checkpoints::ended() const {
  return writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

std::optional<SavedStep> Checkpoints::finish() {
  if (!writing_.valid()) return {};
  return writing_.get();
}

std::optional<std::string> Checkpoints::newest_whole(std::vector<std::string>& notes) const {
  const std::vector<std::string> names = store_.newest_first();
  for (const std::string& name : names) {
    const auto damage = store_.damage(name);
    if (!damage) return name;
    notes.push_back(fmt::format("{} is damaged and not used: {}", store_.path(name).string(), *damage));
  }
  require(names.empty(), "", "{}: every checkpoint is damaged ({}); remove them to start the run again",
          store_.folder().string(), fmt::join(notes, "; "));
  return {};
}

config::Json Checkpoints::config_of(const std::string& checkpoint) const {
  return run_entry(safetensors::File((store_.path(checkpoint) / kStateFile).string()), kConfigKey);
}

std::optional<MetricsMark> Checkpoints::metrics_of(const std::string& checkpoint) const {
  const auto text = files::read_text_if_there(store_.path(checkpoint) / kMetricsFile);
  return text ? MetricsMark::from_json(*text) : std::nullopt;
}

std::vector<SavedStep> Checkpoints::until(std::int64_t step) const {
  std::vector<SavedStep> found;
  for (const std::string& name : store_.newest_first()) {
    const std::int64_t at = CheckpointStore::step_of(name).value_or(0);
    if (at <= step) found.push_back({at, store_.path(name).string()});
  }
  std::ranges::sort(found, {}, &SavedStep::step);
  return found;
}

SavedState Checkpoints::load(const std::string& checkpoint) const {
  return read_state(safetensors::File((store_.path(checkpoint) / kStateFile).string()));
}

void Checkpoints::adopt(RunState& state) {
  std::error_code error;
  if (!state.best_checkpoint.empty() && fs::is_directory(store_.path(state.best_checkpoint), error)) {
    store_.point("best", state.best_checkpoint);
  } else {
    state.best.reset();  // its weights are missing: the next evaluation counts as best
    state.best_checkpoint.clear();
  }
}

SavedState read_state(const safetensors::File& file) {
  SavedState saved{.run = run_state_in(run_entry(file, kStateKey), file.path())};
  for (const auto& entry : file.entries()) saved.tensors.emplace_back(entry.name, file.read(entry));
  return saved;
}

bool has_saved_data(const safetensors::File& weights) { return weights.metadata().contains(kDataKey); }

config::Json saved_data(const std::string& weights) {
  const safetensors::File file(weights);
  return json_in(file, kDataKey);
}

std::string weights_with_data(const RunDirectory& run) {
  const CheckpointStore store(run.checkpoints());
  for (const std::string& name : store.newest_first()) {
    const std::string path = (store.path(name) / kWeightsFile).string();
    try {
      if (has_saved_data(safetensors::File(path))) return path;
    } catch (const UserError&) {  // damaged: try an older one
    }
  }
  return "";
}

bool has_checkpoint(const RunDirectory& run) {
  return !CheckpointStore(run.checkpoints()).newest_first().empty();
}

std::optional<RunState> newest_state(const RunDirectory& run) {
  const CheckpointStore store(run.checkpoints());
  for (const std::string& name : store.newest_first()) {
    if (store.damage(name)) continue;
    const safetensors::File file((store.path(name) / kStateFile).string());
    return run_state_in(run_entry(file, kStateKey), file.path());
  }
  return {};
}

namespace {

// Prefixes of the names in the states of all steps: "" for a single step, else the phase with its dot.
std::vector<std::string> prefixes_of(const safetensors::File& file) {
  const std::string counters = "step.counters";
  std::vector<std::string> prefixes;
  for (const auto& entry : file.entries())
    if (entry.name == counters || entry.name.ends_with("." + counters))
      prefixes.push_back(entry.name.substr(0, entry.name.size() - counters.size()));
  return prefixes;
}

// Counters and values of one step, as text.
struct StepText {
  std::string counts, values;
};

StepText text_of_step(const safetensors::File& file, const std::string& prefix) {
  const auto integers = [&](const char* name) { return file.read(prefix + name).to_vector<std::int64_t>(); };
  const auto reals = [&](const char* name) { return file.read(prefix + name).to_vector<double>(); };
  const std::string phase = prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1) + ": ";
  const auto counters = integers("step.counters");
  StepText words{.counts = fmt::format("{}{} steps attempted, {} applied, {} skipped", phase, counters.at(0),
                                       counters.at(1), counters.at(2)),
                 .values = ""};
  if (counters.at(3) > 0) words.counts += fmt::format(", {} of them in a row just now", counters.at(3));
  if (file.find(prefix + "step.accumulation")) {
    if (const double waiting = reals("step.accumulation").at(0); waiting > 0)
      words.values += fmt::format(", {} micro-batches into a step", waiting);
  }
  if (file.find(prefix + "step.values"))
    words.values += fmt::format("; {}learning rate {:.4g}, gradient norm {}", phase,
                                reals("step.values").at(1), figure_text(reals("step.values").at(2), 4));
  return words;
}

}  // namespace

std::string state_summary(const safetensors::File& file) {
  const std::vector<std::string> prefixes = prefixes_of(file);
  const bool of_checkpoint = file.metadata().contains(metadata_key(kStateKey)) ||
                             files::kind_of(run_file_beside(file)) == files::Kind::file;
  if (!of_checkpoint || prefixes.empty()) return "";
  const RunState state = run_state_in(run_entry(file, kStateKey), file.path());
  std::string words, values;
  for (const std::string& prefix : prefixes) {
    const StepText step = text_of_step(file, prefix);
    words += step.counts + "; ";
    values += step.values;
  }
  words += fmt::format("goes on in epoch {} after {} samples of it{}", state.epoch, state.position, values);
  if (file.find("scaler.values"))
    words += fmt::format("; loss scale {:g}, {} clean steps since it moved",
                         file.read("scaler.values").to_vector<double>().at(0),
                         file.read("scaler.counters").to_vector<std::int64_t>().at(0));
  if (state.best)
    words += fmt::format("; best {} after epoch {} ({})", figure_text(*state.best, 4), state.best_epoch,
                         state.best_checkpoint);
  return words;
}

}  // namespace tandem::runs
