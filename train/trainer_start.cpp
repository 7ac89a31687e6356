// Start of a run: construction and checks of all objects, calibration of the loss scale.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "amp/gradient_histogram.h"
#include "autograd/engine.h"
#include "config/load.h"
#include "core/error.h"
#include "core/random.h"
#include "core/units.h"
#include "files/digest.h"
#include "files/json_text.h"
#include "files/output.h"
#include "files/write.h"
#include "parallel/agreement.h"
#include "runs/environment.h"
#include "runs/run_data.h"
#include "train/calibrate.h"
#include "train/footprint.h"
#include "train/part_weights.h"
#include "train/perturbation.h"
#include "train/planned.h"
#include "train/rank_facts.h"
#include "train/start_checks.h"
#include "train/trainer_session.h"

namespace tandem::train {

namespace {

constexpr Index kManyParameters = 100'000'000;  // their initialisation takes a while, so a remark is printed

// Without a loss scale, many gradients underflow to zero in FP16.
void require_scale_for_wire(const config::Config& config) {
  const optim::ScalerOptions scaler = precision_of(config).scaler;
  require(config.parallel.wire != "fp16" || scaler.moves() || scaler.initial > 1.0, "",
          "parallel.wire: fp16 needs gradients with a loss scale, and precision {} has none; use bf16, or "
          "precision=amp_fp16",
          config.precision.label());
}

// Features that need ranks on CPUs, or FP32 masters.
void require_divisible(const config::Config& config, const ProcessGroup& ranks, Device device) {
  require(
      !ranks.syncs_batch_norm() || device == Device{}, "",
      "parallel.sync_batch_norm: needs ranks on CPUs, the device is {}; leave the key out, or set device=cpu",
      to_string(device));
  if (ranks.update_parts() == 1) return;
  require(
      device == Device{}, "",
      "parallel.shard_optimizer: needs ranks on CPUs, the device is {}; leave the key out, or set device=cpu",
      to_string(device));
  require(!step_options(config).rounding.stochastic, "",
          "parallel.shard_optimizer: stochastic rounding (precision.rounding) draws random numbers by the "
          "index of a weight among all weights; use only one of the two");
}

// The batch size of a step is that of all ranks, also if the configuration gives it per rank.
config::Loaded of_all_ranks(config::Loaded loaded, const parallel::Communicator* ranks) {
  if (ranks && loaded.config.parallel.per_rank) loaded.config.data.batch_size *= ranks->size();
  return loaded;
}

}  // namespace

Trainer::Trainer(const config::Loaded& loaded, TrainerOptions options)
    : given_(loaded),
      loaded_(of_all_ranks(loaded, options.ranks)),
      config_(loaded_.config),
      device_(device_of(config_)),
      options_(options),
      ranks_(options.ranks, config_.parallel, config_.data.batch_size) {
  require_scale_for_wire(config_);
  require_divisible(config_, ranks_, device_);
  const config::Json like = options_.weights.empty() ? config::Json() : runs::saved_data(options_.weights);
  const tasks::DataPtr data = runs::open_data(config_, skipped_.reporter(), like, &notes_);
  if (device_ == Device{}) {
    // A rank has one shard in memory at a time.
    config::Loaded of_shard = loaded_;
    of_shard.config.data.batch_size = ranks_.division().most(config_.data.batch_size);
    // Synchronised batch norm accepts one value per channel; this check does not know the other ranks'
    // values.
    if (ranks_.syncs_batch_norm())
      of_shard.config.data.batch_size = std::max<Index>(2, of_shard.config.data.batch_size);
    const Footprint footprint = footprint_of(of_shard, data, ranks_.update_parts());
    require_memory(of_shard, footprint);
    if (footprint.parameters >= kManyParameters && ranks_.first() && !options_.quiet)
      output::remark("tandem: creating {} parameters: {}\n", footprint.parameters, to_string(footprint));
  }
  check_start(loaded_, data, ranks_.syncs_batch_norm() ? 1 : ranks_.shards());
  require_own_plan(loaded_, data);
  task_ = config::make_task(loaded_, data);
  nn::Module& model = task_->model();
  std::ranges::move(initialise_from(config_, *task_), std::back_inserter(notes_));
  for (const std::string& note : {level_note(device_), precision_note(config_, device_)})
    if (!note.empty()) notes_.push_back(note);
  perturb(model, static_cast<std::uint64_t>(config_.seed), config_.init_ulps);
  precision_ = resolve_precision(loaded_, model);
  make_loaders();
  model.to(device_);
  make_learners();
}

Trainer::~Trainer() = default;

void Trainer::make_loaders() {
  datasets::SourcePtr training = task_->training_source(device_);
  unit_ = unit_of_parts(*task_, training, ranks_.shards(), static_cast<int>(config_.accumulate));
  if (ranks_.divided()) training = training->divided(ranks_.division());
  train_loader_ = std::make_unique<datasets::Loader>(
      std::move(training),
      datasets::Ahead{static_cast<int>(config_.data.workers), static_cast<int>(config_.data.prefetch)});
  const std::string chooses = task_->validation_split();
  validation_ = std::make_unique<DistributedEvaluation>(*task_, chooses, device_, ranks_);
  if (chooses == "validation")
    test_ = std::make_unique<DistributedEvaluation>(*task_, "test", device_, ranks_);
}

void Trainer::make_learners() {
  const std::int64_t per_epoch = steps_per_epoch();
  const Index batch_size = train_loader_->source().layout().samples();
  optim::StepOptions options = step_options(config_);
  options.unit = unit_;
  exchange_ = ranks_.exchange(unit_.value_or(1.0), device_);
  options.shards = exchange_.get();
  options.update_parts = ranks_.update_parts();
  options.own_part = options.update_parts > 1 ? ranks_.rank() : 0;
  peers_ = ranks_.batch_norm_peers();
  learners_ = std::make_unique<Learners>(*task_, loaded_, options, [&](double lr) {
    return make_schedule(config_, lr, per_epoch, per_epoch * config_.epochs);
  });
  runners_ = std::make_unique<StepRunners>(
      *task_, *learners_, *precision_, stages_,
      StepRunnerOptions{.batch_size = batch_size,
                        .seed = static_cast<std::uint64_t>(config_.seed),
                        .number_by_applied = config_.precision.on_skip == "retry",
                        .graphs = graph_use(config_),
                        .peers = peers_.get()},
      device_ != Device{} && ranks_.several());
}

std::string Trainer::dry_run() {
  read_everything(*task_->data(), ranks_.first());  // on every rank, so that none waits too long
  const auto batch = train_loader_->next();
  const amp::Autocast autocast(*precision_);
  NoBatchNormPeers alone;
  const BatchNormPeersScope apart(peers_ ? &alone : nullptr);
  std::string losses;
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    if (batch->samples == 0) break;  // this rank's part is empty
    const RandomNumbers random{.seed = static_cast<std::uint64_t>(config_.seed)};
    losses += fmt::format("{}loss{} {}", phase == 0 ? "" : ", ", learners_->phase_suffix(phase),
                          decimal_text(loss_of_phase(*task_, phase, *batch, random).item(), 4));
    autocast.finish();
    (*learners_)[phase].step->clear();
  }
  std::string text;
  for (const std::string& line : data_and_model_lines()) text += line + "\n";
  for (const std::string& note : notes_) text += note + "\n";
  if (batch->samples > 0) text += fmt::format("batch: {} → {}\n", task_->text_of(*batch), losses);
  for (const std::string& reason : skipped_.take()) text += tasks::text_of_skipped(reason) + "\n";
  if (skipped_.count() > 0) text += tasks::text_of_skipped(skipped_.count()) + "\n";
  return text + run_line() + "\n";
}

std::vector<std::string> Trainer::data_and_model_lines() const {
  const nn::Module& model = task_->model();
  std::vector<std::string> lines{task_->text_of_data()};
  for (std::string& note : task_->notes_of_data()) lines.push_back(std::move(note));
  lines.push_back(
      fmt::format("model: {} parameters, {} trained", model.parameter_count(), model.parameter_count(true)));
  for (const Learner& learner : *learners_)
    for (const std::string& table : learner.step->lazy_tables())
      lines.push_back(fmt::format(
          "lazy updates: {}: untouched rows skip decay and momentum, so results differ from dense updates",
          table));
  return lines;
}

std::string Trainer::run_line() const {
  const std::string ranks = ranks_.text();
  return fmt::format("run: {} epochs of {} steps, {}, {}{}", config_.epochs, steps_per_epoch(),
                     config_.precision.label(), to_string(device_), ranks.empty() ? "" : ", " + ranks);
}

void Trainer::compare_ranks() {
  if (!ranks_.several() || !rank_facts_.empty()) return;
  config::Json same = config_without_run_dir(given_.config);
  same.erase("threads");
  if (const std::string plan = plan_text_of(loaded_); !plan.empty()) same["plan"] = files::sha256(plan);
  std::vector<config::Json> facts;
  for (const std::string& text :
       ranks_.texts(files::json_text(facts_of_rank(runs::environment(), same, *task_->data()))))
    facts.push_back(config::Json::parse(text));
  if (const auto differs = difference(facts)) throw parallel::AgreedError(*differs, true);
  rank_facts_ = config::Json::array();
  for (config::Json& of_rank : facts) {
    of_rank.erase("same");
    rank_facts_.push_back(std::move(of_rank));
  }
  ranks_.join_devices();
  // Each rank draws its weights, or reads them from its own files.
  if (const auto differs = ranks_.difference(learners_->common_state()))
    throw parallel::AgreedError(
        "ranks must start with the same model: " + *differs + "; is init_from one file for all?", true);
}

void Trainer::check_ranks(std::string_view when) {
  if (ranks_.several()) ranks_.require_same(learners_->common_state(), when);
}

// Work before the first step of every session.
void Trainer::begin(Session& session, const std::string& command_line,
                    const std::vector<std::string>& warnings, const std::vector<std::string>& notes) {
  config::Json found = runs::environment();
  if (ranks_.several()) {
    found["communicator"] = ranks_.communicator().description();
    found["ranks"] = rank_facts_;
    if (ranks_.devices()) found["devices_by"] = ranks_.devices()->description();
  }
  found["command_line"] = command_line;
  found["seed"] = config_.seed;
  if (session.output.directory())
    files::write_atomically(session.output.directory()->environment(), files::json_text(found, 2) + "\n");
  if (const std::string plan = plan_text_of(loaded_); session.output.directory() && !plan.empty())
    files::write_atomically(session.output.directory()->plan(), plan);
  if (!options_.quiet && ranks_.first()) session.output.show_progress();
  session.output.log().info(command_line);
  for (const std::string& warning : warnings) session.output.warn(warning);
  for (const std::string& line : data_and_model_lines()) session.output.say(line);
  for (const std::string& note : notes) session.output.say(note);
  session.output.say(run_line());
  for (std::size_t rank = 0; rank < rank_facts_.size(); ++rank)
    session.output.log().info(text_of_rank(static_cast<int>(rank), rank_facts_[rank]));
  if (session.output.directory())
    session.output.say("run directory: " + session.output.directory()->path().string());
  calibrate_scale(session);
  if (learners_->iterations() == 0 && ranks_.first()) {
    warn_of_underflow(session);
    if (!config_.precision.is_fp32())
      for (const amp::LintLine& line : lint_of(*task_, *precision_, config_, device_))
        session.output.warn(to_string(line));
  }
  session.output.metrics().write(runs::StartEvent{task_->model().parameter_count(), config_.precision.label(),
                                                  to_string(device_), learners_->iterations(),
                                                  config::metrics(config_)});
}

// FP16 without a loss scale loses small gradients silently. Measures how many, on the first batch in FP32,
// with a copy of the model.
void Trainer::warn_of_underflow(Session& session) {
  const amp::Precision precision = precision_of(config_);
  if (!precision.runs_in(DType::f16) || precision.scaler.moves() || precision.scaler.initial > 1.0) return;
  const auto position = train_loader_->state();
  const auto batch = train_loader_->next();
  train_loader_->seek(position);
  if (!batch) return;
  amp::ExponentHistogram gradients;
  {
    const auto task = config::make_task(loaded_, task_->data());
    initialise_from(config_, *task);
    task->model().to(device_);
    amp::GradientCollector collector(task->model());
    NoBatchNormPeers alone;
    const BatchNormPeersScope apart(peers_ ? &alone : nullptr);
    for (std::size_t phase = 0; phase < learners_->size(); ++phase)
      backward(loss_of_phase(*task, phase, *batch, {.seed = static_cast<std::uint64_t>(config_.seed)}));
    gradients = collector.activations();
  }
  backend_for(device_).reset_peak_memory();  // the run reports the peak of its own steps
  const auto non_zero = gradients.total() - gradients.zeros();
  const auto flushed = gradients.flushed(0);
  const auto saving = gradients.saving_scale();
  const std::string found =
      flushed == 0
          ? "no activation gradient of the first batch underflows to zero, but later ones may"
          : fmt::format("{:.2g} % of the activation gradients of the first batch underflow to zero{}",
                        100.0 * static_cast<double>(flushed) / static_cast<double>(non_zero),
                        saving && gradients.flushed(*saving) < flushed
                            ? fmt::format(", a scale of {:g} would save them", std::exp2(*saving))
                            : "");
  session.output.say(
      fmt::format("FP16 without a loss scale: {}; \"scaler\": \"dynamic\" prevents it", found));
}

// Calibrates, and stores the result in the run directory; on the first rank.
amp::Calibration Trainer::calibrated(Session& session) {
  amp::Calibration found = calibrate(loaded_, task_->data(), device_);
  if (session.output.directory())
    files::write_atomically(session.output.directory()->calibration(),
                            files::json_text(to_json(found), 2) + "\n");
  session.output.say(to_string(found));
  return found;
}

// A resumed run restores its loss scale; others calibrate it before the first step.
void Trainer::calibrate_scale(Session& session) {
  if (config_.precision.scaler.mode == "segments") return set_segments(session);
  if (config_.precision.scaler.mode != "calibrated" || learners_->iterations() > 0) return;
  std::string start;
  ranks_.together([&] {
    if (!ranks_.first()) return;
    const optim::ScalerOptions scaler = precision_of(config_).scaler;
    if (const auto planned = planned_scale(loaded_, task_->data())) {
      const int log2 = amp::within(scaler, planned->start);
      session.output.say(fmt::format("loss scale: starts at 2^{} from the plan; window 2^{} to 2^{}", log2,
                                     planned->window[0], planned->window[1]));
      start = fmt::format("{}", log2);
      return;
    }
    start = fmt::format("{}", amp::start_of(calibrated(session), scaler));
  });
  learners_->set_loss_scale(std::exp2(std::stoi(ranks_.text_of_first([&] { return start; }))));
}

// A new run finds its segments by calibration and stores them; a resumed run reads them.
void Trainer::set_segments(Session& session) {
  const bool begins = learners_->iterations() == 0;
  std::string found, start = "0";
  ranks_.together([&] {
    if (!ranks_.first()) return;
    if (begins) {
      const amp::Calibration calibration = calibrated(session);
      found = files::json_text(to_json(calibration));
      start = fmt::format("{}", amp::start_of(calibration, precision_of(config_).scaler));
    } else if (session.output.directory()) {
      found = files::read_text_if_there(session.output.directory()->calibration()).value_or("{}");
    }
  });
  const std::string file =
      session.output.directory() ? session.output.directory()->calibration() : "calibration.json";
  const auto segments = segments_in(ranks_.text_of_first([&] { return found; }), file);
  const double scale = std::exp2(std::stoi(ranks_.text_of_first([&] { return start; })));
  borders_ = std::make_unique<amp::SegmentedLossScale>(task_->model(), segments);
  if (begins) learners_->set_loss_scale(scale);
  train::set_segments(*learners_->front().step, *borders_);
  (*runners_)[0].set_borders(borders_.get());
}

}  // namespace tandem::train
