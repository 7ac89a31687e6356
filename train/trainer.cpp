#include "train/trainer.h"

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
#include "core/guard.h"
#include "core/random.h"
#include "core/units.h"
#include "files/json_text.h"
#include "files/write.h"
#include "models/weights.h"
#include "parallel/agreement.h"
#include "parallel/last_words.h"
#include "runs/checkpoints.h"
#include "runs/environment.h"
#include "runs/run_data.h"
#include "train/calibrate.h"
#include "train/evaluate.h"
#include "train/footprint.h"
#include "train/guarded_ops.h"
#include "train/part_weights.h"
#include "train/perturbation.h"
#include "train/planned.h"
#include "train/ranges.h"
#include "train/rank_facts.h"
#include "train/start_checks.h"
#include "train/start_lint.h"
#include "train/trainer_session.h"

namespace tandem::train {

const char* name_of(TrainStatus status) {
  constexpr const char* names[] = {"completed", "interrupted", "failed", "diverged"};
  return names[static_cast<int>(status)];
}

namespace {

constexpr Index kManyParameters = 100'000'000;  // so many take a while to draw, which is said

// Gradients in FP16 that no scale has raised are zeros in good part.
void require_scale_for_wire(const config::Config& config) {
  const optim::ScalerOptions scaler = precision_of(config).scaler;
  require(config.parallel.wire != "fp16" || scaler.moves() || scaler.initial > 1.0, "",
          "parallel.wire: fp16 wants gradients that a loss scale has raised, and precision {} has none; take "
          "bf16, or precision=amp_fp16",
          config.precision.label());
}

// What ranks on CPUs alone do, or with FP32 masters alone.
void require_divisible(const config::Config& config, const Ranks& ranks, Device device) {
  require(
      !ranks.syncs_batch_norm() || device == Device{}, "",
      "parallel.sync_batch_norm: batch norm is synchronised on CPUs so far, the device is {}; leave the key "
      "out, or take device=cpu",
      to_string(device));
  if (ranks.update_parts() == 1) return;
  require(
      device == Device{}, "",
      "parallel.shard_optimizer: the update is divided on CPUs so far, the device is {}; leave the key out, "
      "or take device=cpu",
      to_string(device));
  require(!step_options(config).rounding.stochastic, "",
          "parallel.shard_optimizer: stochastic rounding (precision.rounding) draws by the place of a weight "
          "among all of them; take one of the two");
}

// The batch of a step is that of all ranks, whatever the configuration gives it as.
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
    // A rank has a shard in memory at a time.
    config::Loaded of_shard = loaded_;
    of_shard.config.data.batch_size = ranks_.division().most(config_.data.batch_size);
    // One value a channel is enough where batch norm has those of other ranks, which this does not know.
    if (ranks_.syncs_batch_norm())
      of_shard.config.data.batch_size = std::max<Index>(2, of_shard.config.data.batch_size);
    const Footprint footprint = footprint_of(of_shard, data, ranks_.update_parts());
    require_memory(of_shard, footprint);
    if (footprint.parameters >= kManyParameters && ranks_.first() && !options_.quiet)
      output::remark("tandem: makes {} parameters: {}\n", footprint.parameters, to_string(footprint));
  }
  check_start(loaded_, data, ranks_.syncs_batch_norm() ? 1 : ranks_.shards());
  require_own_plan(loaded_, data);
  task_ = config::make_task(loaded_, data);
  nn::Module& model = task_->model();
  std::ranges::move(initialise_from(config_, *task_), std::back_inserter(notes_));
  for (const std::string& note : {level_note(device_), precision_note(config_, device_)})
    if (!note.empty()) notes_.push_back(note);
  perturb(model, static_cast<std::uint64_t>(config_.seed), config_.init_ulps);
  precision_ = make_plan(loaded_, model);
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
  chooses_ = std::make_unique<SharedPass>(*task_, chooses, device_, ranks_);
  if (chooses == "validation") test_ = std::make_unique<SharedPass>(*task_, "test", device_, ranks_);
}

void Trainer::make_learners() {
  const std::int64_t per_epoch = steps_per_epoch();
  const Index batch_size = train_loader_->source().layout().samples();
  optim::StepOptions of_step = step_options(config_);
  of_step.unit = unit_;
  exchange_ = ranks_.exchange(unit_.value_or(1.0), device_);
  of_step.shards = exchange_.get();
  of_step.update_parts = ranks_.update_parts();
  of_step.own_part = of_step.update_parts > 1 ? ranks_.rank() : 0;
  peers_ = ranks_.batch_norm_peers();
  learners_ = std::make_unique<Learners>(*task_, loaded_, of_step, [&](double lr) {
    return make_schedule(config_, lr, per_epoch, per_epoch * config_.epochs);
  });
  for (std::size_t phase = 0; phase < learners_->size(); ++phase)
    runners_.push_back(
        std::make_unique<StepRunner>(*task_, phase, (*learners_)[phase], *precision_, stages_,
                                     StepRunnerOptions{.batch_size = batch_size,
                                                       .seed = static_cast<std::uint64_t>(config_.seed),
                                                       .number_by_applied = retries(),
                                                       .graphs = graph_use(config_),
                                                       .peers = peers_.get()}));
  carries_.assign(learners_->size(), std::vector<tasks::Carry>(static_cast<std::size_t>(ranks_.own())));
}

std::int64_t Trainer::steps_per_epoch() const {
  const std::int64_t batches = train_loader_->batches_per_epoch() / ranks_.own();
  return (batches + config_.accumulate - 1) / config_.accumulate;
}

bool Trainer::limit_reached() const {
  return options_.limit_steps && learners_->iterations() >= *options_.limit_steps;
}

std::string Trainer::dry_run() {
  read_everything(*task_->data(), ranks_.first());  // as long on every rank, so that none waits
  const auto batch = train_loader_->next();
  const amp::Autocast autocast(*precision_);
  NoBatchNormPeers alone;
  const BatchNormPeersScope apart(peers_ ? &alone : nullptr);
  std::string losses;
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    if (batch->samples == 0) break;  // a part for which none are left
    const RandomNumbers random{.seed = static_cast<std::uint64_t>(config_.seed)};
    losses += fmt::format("{}loss{} {}", phase == 0 ? "" : ", ", learners_->whose(phase),
                          decimal_text(loss_of_phase(*task_, phase, *batch, random).item(), 4));
    autocast.finish();
    (*learners_)[phase].step->clear();
  }
  std::string text;
  for (const std::string& line : what_trains()) text += line + "\n";
  for (const std::string& note : notes_) text += note + "\n";
  if (batch->samples > 0) text += fmt::format("batch: {} → {}\n", task_->text_of(*batch), losses);
  for (const std::string& reason : skipped_.take()) text += tasks::text_of_skipped(reason) + "\n";
  if (skipped_.count() > 0) text += tasks::text_of_skipped(skipped_.count()) + "\n";
  return text + course() + "\n";
}

std::vector<std::string> Trainer::what_trains() const {
  const nn::Module& model = task_->model();
  std::vector<std::string> lines{task_->text_of_data()};
  for (std::string& note : task_->notes_of_data()) lines.push_back(std::move(note));
  lines.push_back(
      fmt::format("model: {} parameters, {} trained", model.parameter_count(), model.parameter_count(true)));
  for (const Learner& learner : *learners_)
    for (const std::string& table : learner.step->lazy_tables())
      lines.push_back(fmt::format(
          "lazy updates: {}: a step changes only the rows it touched, which dense updates would not", table));
  return lines;
}

std::string Trainer::course() const {
  const std::string ranks = ranks_.text();
  return fmt::format("run: {} epochs of {} steps, {}, {}{}", config_.epochs, steps_per_epoch(),
                     config_.precision.label(), to_string(device_), ranks.empty() ? "" : ", " + ranks);
}

// What happens once, before the first step.
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
  if (session.directory)
    files::write_atomically(session.directory->environment(), files::json_text(found, 2) + "\n");
  if (const std::string plan = plan_text_of(loaded_); session.directory && !plan.empty())
    files::write_atomically(session.directory->plan(), plan);
  if (!options_.quiet && ranks_.first()) session.progress = std::make_unique<Progress>();
  session.log.info(command_line);
  for (const std::string& warning : warnings) session.warn(warning);
  for (const std::string& line : what_trains()) session.say(line);
  for (const std::string& note : notes) session.say(note);
  session.say(course());
  for (std::size_t rank = 0; rank < rank_facts_.size(); ++rank)
    session.log.info(text_of_rank(static_cast<int>(rank), rank_facts_[rank]));
  if (session.directory) session.say("run directory: " + session.directory->path().string());
  calibrate_scale(session);
  if (learners_->iterations() == 0 && ranks_.first()) {
    warn_of_underflow(session);
    if (in_16_bits())
      for (const amp::LintLine& line : lint_of(*task_, *precision_, config_, device_))
        session.warn(to_string(line));
  }
  session.metrics.write(runs::StartEvent{task_->model().parameter_count(), config_.precision.label(),
                                         to_string(device_), learners_->iterations(),
                                         config::metrics(config_)});
}

TrainResult Trainer::run(const runs::RunDirectory* directory, const std::string& command_line,
                         const StopRequest& stop) {
  compare_ranks();
  std::optional<runs::RunLock> lock;
  ranks_.together([&] {
    if (!directory) return;
    lock.emplace(*directory);
    files::remove_abandoned(directory->path());
  });
  std::vector<std::string> notes = notes_, warnings;
  runs::RunState state;
  if (options_.resume) state = resume(directory, notes, warnings);
  Session session(directory, stop, config_, *task_->data(), learners_->size(),
                  ranks_.first() ? "" : parallel::words_of_rank(ranks_.rank(), ranks_.size(), ""));
  if (options_.resume) session.state = state;
  session.state.training_samples = task_->data()->training_samples();
  if (options_.resume && learners_->iterations() > 0) {
    session.told_of_save = learners_->iterations();
    if (!converted_) session.tensors_at = learners_->iterations();
  }
  session.saved_step = learners_->iterations();
  std::ranges::fill(session.read_step, learners_->iterations());
  const auto ranges = profile::ranges_if_asked(device_);
  if (ranges) ranges->watch(stages_);
  const auto guarded = guarded_ops_if_asked();
  if (guarded)
    notes.push_back(
        "guards are on (TANDEM_GUARD): the memory around every kernel is checked, which takes time");
  try {
    begin(session, command_line, warnings, notes);
    session.stops = ranks_.any(session.hindrance().has_value());
    if (!session.stops) train(session);
    ranks_.together([&] {
      conclude_save(session);
      if (session.hindrance()) throw VendorError("", *session.hindrance());
    });
  } catch (const Diverged& diverged) {
    session.result.status = TrainStatus::diverged;
    session.result.failure = diverged.what;
  } catch (const std::exception& error) {
    if (!dynamic_cast<const parallel::AgreedError*>(&error)) ranks_.abandon_devices();
    session.result.status = TrainStatus::failed;
    session.log.error(error.what());
    try {
      end(session);
    } catch (const std::exception& later) {
      session.log.error(later.what());  // the first error is the one to tell
    }
    throw;
  }
  check_outcome(session);
  if (!session.result.failure.empty()) session.log.error(session.result.failure);
  end(session);
  check_course(session);
  share_outcome(session);
  std::string times;
  for (std::size_t p = 0; p < kStageNames.size(); ++p)
    times += fmt::format("{}{} {:.2f} s", p == 0 ? "" : ", ", kStageNames[p],
                         stages_.seconds(static_cast<Stage>(p)));
  session.log.info("time of the steps: " + times);
  session.log.info(name_of(session.result.status));
  return session.result;
}

// A run that came to its end may have failed all the same.
void Trainer::check_outcome(Session& session) {
  TrainResult& result = session.result;
  if (!result.failure.empty()) return;
  if (!session.save_error.empty()) {
    result.failure = fmt::format("the last checkpoint could not be saved: {}", session.save_error);
  } else if (result.status == TrainStatus::completed && session.unwritten) {
    result.failure =
        fmt::format("the files of the last evaluation could not be written: {}", *session.unwritten);
  }
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    const optim::StepReport report = (*learners_)[phase].step->synchronize();
    if (result.failure.empty() && result.status == TrainStatus::completed && report.attempted > 0 &&
        report.applied == 0)
      result.failure =
          fmt::format("all {} steps{} were skipped, the last at a loss scale of {}: nothing was learnt",
                      report.attempted, learners_->whose(phase), report.loss_scale);
  }
  if (!result.failure.empty()) {
    result.status = TrainStatus::failed;
  } else if (result.status == TrainStatus::completed && session.ran_away) {
    result.status = TrainStatus::diverged;
    result.failure = *session.ran_away;
  }
}

// Why what was trained is of no use, though no step ended the run. A scale that is still too high skips
// steps, too: of a moving one the bounds say when it has failed.
std::optional<std::string> Trainer::divergence(const Session& session) {
  constexpr const char* kAdvice =
      ": training has diverged; try a lower optimizer.lr, schedule.warmup_steps or clip_norm";
  if (const auto found = models::non_finite_weights(task_->model())) return *found + kAdvice;
  constexpr double kGreatest = 0x1p64;  // whose square is no number of f32
  if (const auto loss = figure(session.result.metrics, "loss");
      loss && std::isfinite(*loss) && *loss >= kGreatest)
    return fmt::format("the loss of the last evaluation is {:.3g}{}", *loss, kAdvice);
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    optim::Step& step = *(*learners_)[phase].step;
    const optim::StepReport report = step.synchronize();
    if (step.scaler().options().moves() || report.skipped <= report.applied) continue;
    return fmt::format("{} of {} steps{} were skipped, their gradients were not finite{}{}", report.skipped,
                       report.attempted, learners_->whose(phase), kAdvice,
                       report.loss_scale > 1.0 ? ", or a lower static scale" : "");
  }
  return {};
}

// A run that has ended and is saved, but could not write all of its course, has failed.
void Trainer::check_course(Session& session) {
  TrainResult& result = session.result;
  const auto hindrance = session.hindrance() ? session.hindrance() : session.metrics.unwritten();
  if (!hindrance || !result.failure.empty()) return;
  result.status = TrainStatus::failed;
  result.failure = *hindrance;
  session.log.error(result.failure);
}

void Trainer::end(Session& session) {
  TrainResult& result = session.result;
  result.steps = learners_->iterations();
  result.best = session.state.best;
  result.chosen_on = task_->validation_split();
  result.best_epoch = session.state.best_epoch;
  result.wall_s = since(session.started);
  tell_skipped(session);
  if (skipped_.count() > 0) session.warn(tasks::text_of_skipped(skipped_.count()));
  runs::EndEvent event{.status = name_of(result.status), .steps = result.steps};
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    const optim::StepReport report = (*learners_)[phase].step->synchronize();
    if (report.skipped > 0)
      session.say(fmt::format("{} of {} steps{} were skipped: their gradients were not finite",
                              report.skipped, report.attempted, learners_->whose(phase)));
    event.applied = phase == 0 ? report.applied : std::min(event.applied, report.applied);
    event.skipped += report.skipped;
  }
  event.wall_s = result.wall_s;
  event.peak_memory_bytes = backend_for(device_).memory().peak;
  event.metrics = result.metrics;
  session.metrics.write(event);
  if (session.progress) session.progress->finish();
}

// FP16 without a loss scale trains on, and silently loses gradients: says how many, measured on the first
// batch in FP32, on a copy of the model that leaves nothing behind.
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
  backend_for(device_).reset_peak_memory();  // the figure of the run is that of its own steps
  const auto non_zero = gradients.total() - gradients.zeros();
  const auto flushed = gradients.flushed(0);
  const auto saving = gradients.saving_scale();
  const std::string found =
      flushed == 0
          ? "no activation gradient of the first batch underflows to zero, later ones may"
          : fmt::format("{:.2g} % of the activation gradients of the first batch underflow to zero{}",
                        100.0 * static_cast<double>(flushed) / static_cast<double>(non_zero),
                        saving && gradients.flushed(*saving) < flushed
                            ? fmt::format(", a scale of {:g} would save them", std::exp2(*saving))
                            : "");
  session.say(fmt::format("FP16 without a loss scale: {}; \"scaler\": \"dynamic\" prevents it", found));
}

// Once, before the first step: what a run goes on with has a scale.
void Trainer::calibrate_scale(Session& session) {
  if (config_.precision.scaler.mode == "segments") return set_segments(session);
  if (config_.precision.scaler.mode != "calibrated" || learners_->iterations() > 0) return;
  std::string start;
  ranks_.together([&] {
    if (!ranks_.first()) return;
    const optim::ScalerOptions scaler = precision_of(config_).scaler;
    if (const auto planned = planned_scale(loaded_, task_->data())) {
      const int log2 = amp::within(scaler, planned->start);
      session.say(fmt::format("loss scale: 2^{} to start with, as the plan says; window 2^{} to 2^{}", log2,
                              planned->window[0], planned->window[1]));
      start = fmt::format("{}", log2);
      return;
    }
    const amp::Calibration found = calibrate(loaded_, task_->data(), device_);
    if (session.directory)
      files::write_atomically(session.directory->calibration(), files::json_text(to_json(found), 2) + "\n");
    session.say(to_string(found));
    start = fmt::format("{}", amp::start_of(found, scaler));
  });
  const double scale = std::exp2(std::stoi(ranks_.text_of_first([&] { return start; })));
  for (Learner& learner : *learners_)
    for (int i = 0; i < learner.step->scaler().count(); ++i) learner.step->scaler().set(scale, i);
}

// Those that the first step found are the run's, which keeps them beside its checkpoints.
void Trainer::set_segments(Session& session) {
  const bool begins = learners_->iterations() == 0;
  std::string found, start = "0";
  ranks_.together([&] {
    if (!ranks_.first()) return;
    if (begins) {
      const amp::Calibration calibration = calibrate(loaded_, task_->data(), device_);
      found = files::json_text(to_json(calibration), 2) + "\n";
      start = fmt::format("{}", amp::start_of(calibration, precision_of(config_).scaler));
      if (session.directory) files::write_atomically(session.directory->calibration(), found);
      session.say(to_string(calibration));
    } else if (session.directory) {
      found = files::read_text_if_there(session.directory->calibration()).value_or("{}");
    }
  });
  const std::string file = session.directory ? session.directory->calibration() : "calibration.json";
  const auto segments = segments_in(ranks_.text_of_first([&] { return found; }), file);
  const double scale = std::exp2(std::stoi(ranks_.text_of_first([&] { return start; })));
  borders_ = std::make_unique<amp::ScaleBorders>(task_->model(), segments);
  optim::Step& step = *learners_->front().step;
  if (begins) step.scaler().set(scale);
  train::set_segments(step, *borders_);
  runners_.front()->set_borders(borders_.get());
}

void Trainer::train(Session& session) {
  runs::RunState& state = session.state;
  const auto stops = [&] { return ranks_.any(session.stop.asked() || session.hindrance()); };
  while (state.epoch <= config_.epochs && !limit_reached()) {
    const bool whole = train_epoch(session);
    const bool last = !whole || state.epoch == config_.epochs || limit_reached();
    if ((session.stops && !whole) || !evaluate_and_save(session, whole, last)) return interrupt(session);
    if (!whole) break;
    begin_next_epoch(state);
    if (!last && (session.stops = stops())) return interrupt(session);
  }
  bool looked_at = true;
  if (session.result.metrics.empty()) {  // there was nothing left to train
    const bool whole = state.epoch > config_.epochs;
    if (whole) state.epoch = config_.epochs;
    looked_at = evaluate_and_save(session, whole, true);
  }
  session.ran_away = divergence(session);  // before the best weights take the place of the last ones
  if (looked_at && test_) looked_at = test_best(session);
  if (looked_at) return;
  // All that was trained is saved: the run goes on with the evaluation that is missing.
  if (session.evaluation_error) std::rethrow_exception(session.evaluation_error);
  session.result.status = TrainStatus::interrupted;
}

// From state.position on. Returns whether the epoch came to its end.
bool Trainer::train_epoch(Session& session) {
  const auto started = Clock::now();
  session.own_samples = 0.0;
  task_->model().train();
  const Index batches = train_loader_->batches_per_epoch() / ranks_.own();
  Index served = train_loader_->batches_served() / ranks_.own();
  std::ranges::fill(session.step_started, Clock::now());
  stages_.start();
  while (served < batches) {
    take_batch(session);
    ++served;
    if (session.batches_taken < config_.accumulate && served < batches) continue;
    end_iteration(session);
    if (session.checkpoints && session.checkpoints->ended()) conclude_save(session);
    session.stops = ranks_.any(session.stop.asked() || session.hindrance());
    if (session.stops || limit_reached()) break;
    if (check_due(session)) check_ranks(fmt::format("after step {}:", learners_->iterations()));
    if (served < batches && checkpoint_due(session)) save_inside_epoch(session);
  }
  finish_steps(session);
  session.epoch_seconds = since(started);
  session.result.train_s += session.epoch_seconds;
  if (served < batches) return false;
  train_loader_->seek({static_cast<std::uint32_t>(session.state.epoch), 0});
  for (auto& carries : carries_) std::ranges::fill(carries, tasks::Carry());
  return true;
}

// Knows the outcome of every step, where the epoch stands, and that no kernel wrote beyond its memory.
void Trainer::finish_steps(Session& session) {
  settle(session);
  for (Learner& learner : *learners_) learner.step->synchronize();
  read_outcomes(session, true);
  guard::check("memory");
  session.state.position = train_loader_->state().position;
}

// The next batch, or the own parts of it, for the step of the first phase.
void Trainer::take_batch(Session& session) {
  const Index before = train_loader_->state().position;
  for (Index shard = 0; shard < ranks_.own(); ++shard) {
    stages_.begin(Stage::data);
    MicroBatch micro_batch{.batch = train_loader_->next().value(), .shard = static_cast<std::size_t>(shard)};
    if (!ranks_.divided()) {
      micro_batch.samples = static_cast<double>(micro_batch.batch.samples);
    } else if (shard + 1 == ranks_.own()) {
      micro_batch.samples = static_cast<double>(train_loader_->state().position - before);
    }
    stages_.finish(Stage::data);
    if (learners_->size() > 1) session.batches.push_back(micro_batch);
    this->micro_batch(session, 0, std::move(micro_batch));
  }
  ++session.batches_taken;
}

std::string Trainer::name_of_phase(std::size_t phase) const {
  return learners_->size() > 1 ? (*learners_)[phase].phase.name : "";
}

// " 0.1234", or of several phases " first 0.1234, second 0.5678".
std::string Trainer::by_phase(const std::vector<double>& losses) const {
  std::string text;
  for (std::size_t phase = 0; phase < losses.size(); ++phase) {
    const std::string name = name_of_phase(phase);
    text += fmt::format("{}{} {}", phase == 0 ? "" : ",", name.empty() ? "" : " " + name,
                        decimal_text(losses[phase], 4));
  }
  return text;
}

}  // namespace tandem::train
