#include "train/trainer.h"

#include <fmt/core.h>

#include <cmath>
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
#include "runs/environment.h"
#include "train/evaluate.h"
#include "train/footprint.h"
#include "train/guarded_ops.h"
#include "train/perturbation.h"
#include "train/ranges.h"
#include "train/trainer_session.h"

namespace tandem::train {

const char* name_of(TrainStatus status) {
  constexpr const char* names[] = {"completed", "interrupted", "failed"};
  return names[static_cast<int>(status)];
}

Trainer::Trainer(const config::Loaded& loaded, TrainerOptions options)
    : loaded_(loaded), config_(loaded.config), device_(device_of(loaded.config)), options_(options) {
  const tasks::DataPtr data = config::open_data(config_, skipped_.reporter());
  if (device_ == Device{}) require_memory(loaded_, footprint_of(loaded_, data));
  task_ = config::make_task(loaded_, data);
  nn::Module& model = task_->model();
  notes_ = initialise_from(config_, model);
  if (const std::string note = precision_note(config_, device_); !note.empty()) notes_.push_back(note);
  perturb(model, static_cast<std::uint64_t>(config_.seed), config_.init_ulps);
  precision_ = make_plan(loaded_, model);
  task_->prepare(*precision_, device_);
  make_loaders();
  model.to(device_);
  optimizer_ = make_optimizer(config_, model);
  const std::int64_t per_epoch = steps_per_epoch();
  step_ = std::make_unique<optim::Step>(
      model, std::vector<optim::Optimizer*>{optimizer_.get()},
      step_options(config_, make_schedule(config_, per_epoch, per_epoch * config_.epochs)));
  runner_ =
      std::make_unique<StepRunner>(*task_, *precision_, *step_, phases_,
                                   StepRunnerOptions{.batch_size = train_loader_->source().layout().samples(),
                                                     .seed = static_cast<std::uint64_t>(config_.seed),
                                                     .number_by_applied = retries(),
                                                     .graphs = graph_use(config_)});
}

Trainer::~Trainer() = default;

void Trainer::make_loaders() {
  train_loader_ = std::make_unique<datasets::Loader>(
      task_->training_source(device_),
      datasets::Ahead{static_cast<int>(config_.data.workers), static_cast<int>(config_.data.prefetch)});
  const std::string chooses = task_->validation_split();
  eval_loader_ = std::make_unique<datasets::Loader>(task_->evaluation_source(chooses, device_));
  if (chooses == "validation")
    test_loader_ = std::make_unique<datasets::Loader>(task_->evaluation_source("test", device_));
}

std::int64_t Trainer::steps_per_epoch() const {
  const std::int64_t batches = train_loader_->batches_per_epoch();
  return (batches + config_.accumulate - 1) / config_.accumulate;
}

bool Trainer::limit_reached() const {
  return options_.limit_steps && step_->attempted() >= *options_.limit_steps;
}

std::string Trainer::dry_run() {
  const RandomScope random(static_cast<std::uint64_t>(config_.seed), 0, 0);
  const auto batch = train_loader_->next();
  const amp::Autocast autocast(*precision_);
  const double loss = task_->loss(*batch).item();
  step_->clear();
  nn::Module& model = task_->model();
  std::string text = task_->text_of_data() + "\n";
  text +=
      fmt::format("model: {} parameters, {} trained\n", model.parameter_count(), model.parameter_count(true));
  for (const std::string& note : notes_) text += note + "\n";
  text += fmt::format("batch: {} → loss {:.4f}\n", task_->text_of(*batch), loss);
  if (skipped_.count() > 0) text += tasks::text_of_skipped(skipped_.count()) + "\n";
  text += fmt::format("run: {} epochs of {} steps, {}, {}\n", config_.epochs, steps_per_epoch(),
                      config_.precision.label(), to_string(device_));
  return text;
}

TrainResult Trainer::run(const runs::RunDirectory& directory, const std::string& command_line,
                         const StopRequest& stop) {
  const runs::RunLock lock(directory);
  files::remove_abandoned(directory.path());
  std::vector<std::string> notes = notes_, warnings;
  runs::RunState state;
  if (options_.resume) state = resume(directory, notes, warnings);
  Session session(directory, stop, config_, *task_->data());
  session.state = state;
  if (options_.resume && step_->attempted() > 0) session.resumed_at = step_->attempted();
  session.saved_step = session.read_step = step_->attempted();
  const auto ranges = profile::ranges_if_asked(device_);
  if (ranges) ranges->watch(phases_);
  const auto guarded = guarded_ops_if_asked();
  if (guarded)
    notes.push_back(
        "guards are on (TANDEM_GUARD): the memory around every kernel is checked, which takes time");
  config::Json found = runs::environment();
  found["command_line"] = command_line;
  found["seed"] = config_.seed;
  files::write_atomically(directory.environment(), files::json_text(found, 2) + "\n");
  if (!options_.quiet) session.progress = std::make_unique<Progress>();
  session.log.info(command_line);
  for (const std::string& warning : warnings) session.warn(warning);
  for (const std::string& note : notes) session.say(note);
  if (step_->attempted() == 0) warn_of_underflow(session);
  session.metrics.write(runs::StartEvent{task_->model().parameter_count(), config_.precision.label(),
                                         to_string(device_), step_->attempted()});
  try {
    if (!session.hindrance()) train(session);
    conclude_save(session);
    if (session.hindrance()) throw VendorError("", *session.hindrance());
  } catch (const Diverged& diverged) {
    session.result.status = TrainStatus::failed;
    session.result.failure = diverged.what;
  } catch (const std::exception& error) {
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
  std::string times;
  for (std::size_t p = 0; p < kPhaseNames.size(); ++p)
    times += fmt::format("{}{} {:.2f} s", p == 0 ? "" : ", ", kPhaseNames[p],
                         phases_.seconds(static_cast<Phase>(p)));
  session.log.info("time of the steps: " + times);
  session.log.info(name_of(session.result.status));
  return session.result;
}

// A run that came to its end may have failed all the same.
void Trainer::check_outcome(Session& session) {
  TrainResult& result = session.result;
  if (result.status == TrainStatus::failed) return;
  const optim::StepReport report = step_->synchronize();
  if (!session.save_error.empty()) {
    result.failure = fmt::format("the last checkpoint could not be saved: {}", session.save_error);
  } else if (result.status == TrainStatus::completed && report.attempted > 0 && report.applied == 0) {
    result.failure =
        fmt::format("all {} steps were skipped, the last at a loss scale of {}: nothing was learnt",
                    report.attempted, report.loss_scale);
  }
  if (!result.failure.empty()) result.status = TrainStatus::failed;
}

// A run that has ended and is saved, but could not write all of its course, has failed.
void Trainer::check_course(Session& session) {
  TrainResult& result = session.result;
  const auto hindrance = session.hindrance() ? session.hindrance() : session.metrics.unwritten();
  if (!hindrance || result.status == TrainStatus::failed) return;
  result.status = TrainStatus::failed;
  result.failure = *hindrance;
  session.log.error(result.failure);
}

void Trainer::end(Session& session) {
  const optim::StepReport report = step_->synchronize();
  TrainResult& result = session.result;
  result.steps = report.attempted;
  result.best = session.state.best;
  result.chosen_on = task_->validation_split();
  result.best_epoch = session.state.best_epoch;
  result.wall_s = since(session.started);
  tell_skipped(session);
  if (skipped_.count() > 0) session.warn(tasks::text_of_skipped(skipped_.count()));
  if (report.skipped > 0)
    session.say(fmt::format("{} of {} steps were skipped: their gradients were not finite", report.skipped,
                            report.attempted));
  session.metrics.write(runs::EndEvent{name_of(result.status), report.attempted, report.applied,
                                       report.skipped, result.wall_s, backend_for(device_).memory().peak,
                                       result.metrics});
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
    initialise_from(config_, task->model());
    task->prepare(*precision_, device_);  // the batch is in the form that the run's model takes
    task->model().to(device_);
    const RandomScope random(static_cast<std::uint64_t>(config_.seed), 0, 0);
    amp::GradientCollector collector(task->model());
    backward(task->loss(*batch));
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

TrainResult Trainer::train(Session& session) {
  runs::RunState& state = session.state;
  while (state.epoch <= config_.epochs && !limit_reached()) {
    const bool whole = train_epoch(session);
    const bool last = !whole || state.epoch == config_.epochs || limit_reached();
    if (session.stop.asked() || session.hindrance() || !evaluate_and_save(session, whole, last)) {
      interrupt(session);
      return session.result;
    }
    if (!whole) break;
    begin_next_epoch(state);
  }
  if (session.result.metrics.empty()) {  // there was nothing left to train
    const bool whole = state.epoch > config_.epochs;
    if (whole) state.epoch = config_.epochs;
    evaluate_and_save(session, whole, true);
  }
  if (test_loader_) test_best(session);
  return session.result;
}

// From state.position on. Returns whether the epoch came to its end.
bool Trainer::train_epoch(Session& session) {
  const auto started = Clock::now();
  session.own_samples = 0.0;
  task_->model().train();
  const Index batches = train_loader_->batches_per_epoch();
  Index served = train_loader_->batches_served();
  auto step_started = Clock::now();
  Pending pending;
  phases_.start();
  while (served < batches) {
    micro_batch(session, pending);
    ++served;
    if (!step_->ready() && served < batches) continue;
    pending.seconds = since(step_started);
    step_started = Clock::now();
    end_step(session, std::move(pending));
    pending = {};
    if (session.checkpoints.ended()) conclude_save(session);
    if (session.stop.asked() || session.hindrance() || limit_reached()) break;
    if (served < batches && checkpoint_due(session)) save_inside_epoch(session);
  }
  finish_steps(session);
  session.epoch_seconds = since(started);
  session.result.train_s += session.epoch_seconds;
  if (served < batches) return false;
  train_loader_->seek({static_cast<std::uint32_t>(session.state.epoch), 0});
  return true;
}

// Knows the outcome of every step, where the epoch stands, and that no kernel wrote beyond its memory.
void Trainer::finish_steps(Session& session) {
  settle(session, nullptr);
  step_->synchronize();
  read_outcomes(session);
  guard::check("memory");
  session.state.position = train_loader_->state().position;
}

void Trainer::micro_batch(Session& session, Pending& pending) {
  phases_.begin(Phase::data);
  const datasets::Batch batch = train_loader_->next().value();
  phases_.finish(Phase::data);
  runner_->backward(batch);
  pending.samples += static_cast<double>(batch.samples);
  if (!in_16_bits()) return;
  pending.batches.push_back(batch);
  settle(session, &pending);  // after the first one: lets the batches of the step before go
}

// Returns false when a stop was asked for on the way.
bool Trainer::evaluate_now(Session& session, datasets::Loader& loader, const std::string& split,
                           bool details) {
  const auto evaluation = evaluate(*task_, loader, details, &session.stop);
  tell_skipped(session);
  if (!evaluation) return false;
  session.result.metrics = evaluation->metrics();
  session.result.epoch = session.state.epoch;
  session.result.split = split;
  session.metrics.write(
      runs::EvalEvent{step_->attempted(), session.state.epoch, split, session.result.metrics});
  for (const tasks::Artifact& artifact : evaluation->artifacts())
    session.write_beside(session.directory.path() / artifact.file, artifact.contents);
  std::string training;
  const runs::RunState& state = session.state;
  if (state.epoch_samples > 0.0)
    training = fmt::format("training loss {:.4f}  ", state.epoch_loss / state.epoch_samples);
  session.say(
      fmt::format("epoch {}/{}  {}{}: {}  {} items/s  {}", session.state.epoch, config_.epochs, training,
                  split, metrics_text(session.result.metrics),
                  count_text(session.epoch_seconds > 0.0 ? session.own_samples / session.epoch_seconds : 0.0),
                  duration_text(since(session.started))));
  return true;
}

// With a validation split, the test split is looked at once, with the weights that validation chose.
void Trainer::test_best(Session& session) {
  conclude_save(session);
  if (session.state.best_checkpoint.empty()) {
    session.warn("no weights of the best epoch could be saved: the test split is not looked at");
    return;
  }
  runs::load_run_weights(session.directory, "best", task_->model());
  session.state.epoch_loss = session.state.epoch_samples = 0.0;
  evaluate_now(session, *test_loader_, "test", task_->keeps_details());
}

}  // namespace tandem::train
