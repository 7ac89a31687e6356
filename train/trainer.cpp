#include "train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "amp/gradient_histogram.h"
#include "autograd/engine.h"
#include "core/error.h"
#include "core/random.h"
#include "data/decorators.h"
#include "models/builder.h"
#include "train/config/load.h"
#include "train/environment.h"
#include "train/evaluate.h"
#include "train/files.h"
#include "train/perturbation.h"
#include "train/profile/ranges.h"
#include "train/resume.h"
#include "train/run_writer.h"

namespace tandem::train {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A loss that is no number; carries the sentence for the user.
struct Diverged {
  std::string what;
};

void begin_next_epoch(RunState& state) {
  ++state.epoch;
  state.position = 0;
  state.epoch_loss = state.epoch_samples = 0.0;
}

// The configuration without where the run lies: a run may be moved.
config::Json course_of(const config::Config& config) {
  config::Json course = config::resolved(config);
  course.erase("run_dir");
  return course;
}

bool goes_on_without_saving(const config::Config& config) {
  return config.checkpoint.on_save_error == "continue";
}

datasets::DatasetPtr first_samples(const datasets::DatasetPtr& dataset, Index count) {
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(std::min(count, dataset->size())));
  std::iota(indices.begin(), indices.end(), 0U);
  return std::make_shared<datasets::Subset>(dataset, std::move(indices));
}

}  // namespace

const char* name_of(TrainStatus status) {
  constexpr const char* names[] = {"completed", "interrupted", "failed"};
  return names[static_cast<int>(status)];
}

// What exists only while a run goes on.
struct Trainer::Session {
  Session(const RunDirectory& directory_, const StopRequest& stop_, const config::Config& config,
          const DataDescription& data)
      : directory(directory_),
        stop(stop_),
        metrics(directory_, config, goes_on_without_saving(config) ? OnWriteError::keep : OnWriteError::fail),
        log(directory_.log()),
        checkpoints(directory_, config.checkpoint.keep, data, course_of(config)) {}

  void say(const std::string& text) {
    if (progress) progress->line(text);
    log.info(text);
  }
  // To the user even when quiet.
  void warn(const std::string& text) {
    if (progress) {
      progress->line("warning: " + text);
    } else {
      fmt::print(stderr, "tandem: warning: {}\n", text);
    }
    log.warning(text);
  }

  const RunDirectory& directory;
  const StopRequest& stop;
  RunWriter metrics;
  Log log;
  Checkpoints checkpoints;
  std::unique_ptr<Progress> progress;  // absent when quiet
  RunState state;
  TrainResult result;
  std::deque<Pending> pending;
  Clock::time_point started = Clock::now();
  double step_seconds = 0.0;  // smoothed
  double epoch_seconds = 0.0;
  double own_samples = 0.0;  // of the epoch, that this process has served
  std::string save_error;    // of the last save; empty when it went well
  // Before the best figure whose checkpoint is under way: what is best if that cannot be saved.
  std::optional<RunState> before_best;
};

Trainer::Trainer(const config::Loaded& loaded, TrainerOptions options)
    : loaded_(loaded), config_(loaded.config), device_(device_of(loaded.config)), options_(options) {
  splits_ = open_data(config_);
  data_ = describe_data(splits_);
  const Shape sample = datasets::training_pipeline(splits_, transforms()).output_shape();
  model_ = make_model(loaded_, data_, sample);
  notes_ = initialise_from(config_, *model_);
  if (const std::string note = precision_note(config_, device_); !note.empty()) notes_.push_back(note);
  perturb(*model_, static_cast<std::uint64_t>(config_.seed), config_.init_ulps);
  precision_ = make_plan(loaded_, *model_);
  task_ = make_task(config_, models::output_shape(*model_, sample));
  make_loaders(image_format(*model_, *precision_, sample, device_));
  model_->to(device_);
  optimizer_ = make_optimizer(config_, *model_);
  const std::int64_t per_epoch = steps_per_epoch();
  step_ = std::make_unique<optim::Step>(
      *model_, std::vector<optim::Optimizer*>{optimizer_.get()},
      step_options(config_, make_schedule(config_, per_epoch, per_epoch * config_.epochs)));
  runner_ = std::make_unique<StepRunner>(*model_, *precision_, *task_, *step_, phases_,
                                         StepRunnerOptions{.seed = static_cast<std::uint64_t>(config_.seed),
                                                           .number_by_applied = retries(),
                                                           .graphs = graph_use(config_)});
}

Trainer::~Trainer() = default;

// Of training images, in order.
std::vector<datasets::TransformSpec> Trainer::transforms() const {
  const auto augment = augmentations(config_);
  return config_.data.overfit_batches > 0 ? datasets::evaluation_transforms(augment) : augment;
}

// `format` is that of training; evaluation is in FP32.
void Trainer::make_loaders(const ImageFormat& format) {
  const auto& data = config_.data;
  const bool few = data.overfit_batches > 0;
  const auto specs = transforms();
  datasets::DatasetPtr training = splits_.train;
  datasets::DatasetPtr held_out = splits_.validation ? splits_.validation : splits_.test;
  eval_split_ = splits_.validation ? "validation" : "test";
  if (few) {
    training = held_out = first_samples(training, data.overfit_batches * data.batch_size);
    eval_split_ = "train";
  }
  train_loader_ = std::make_unique<datasets::Loader>(
      training, datasets::training_pipeline(splits_, specs),
      datasets::LoaderOptions{.batch_size = data.batch_size,
                              .shuffle = data.shuffle && !few,
                              .drop_last = data.drop_last && training->size() >= data.batch_size,
                              .threads = static_cast<int>(data.workers),
                              .prefetch = static_cast<int>(data.prefetch),
                              .seed = static_cast<std::uint64_t>(config_.seed),
                              .device = device_,
                              .dtype = format.dtype,
                              .channel_multiple = format.channel_multiple});
  const auto evaluating = [&](const datasets::DatasetPtr& dataset) {
    return std::make_unique<datasets::Loader>(
        dataset, datasets::evaluation_pipeline(splits_, specs),
        datasets::LoaderOptions{.batch_size = *data.eval_batch_size, .device = device_});
  };
  eval_loader_ = evaluating(held_out);
  if (eval_split_ == "validation") test_loader_ = evaluating(splits_.test);
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
  const double loss = task_->loss((*model_)(batch->images), *batch).item();
  step_->clear();
  std::string text = fmt::format("{}: {} training, {} {} samples, {} classes\n", data_.info.name,
                                 train_loader_->samples_per_epoch(), eval_loader_->samples_per_epoch(),
                                 eval_split_, data_.info.classes);
  text += fmt::format("model: {} parameters, {} trained\n", model_->parameter_count(),
                      model_->parameter_count(true));
  for (const std::string& note : notes_) text += note + "\n";
  text += fmt::format("batch: {} → loss {:.4f}\n", to_string(batch->images.shape()), loss);
  text += fmt::format("run: {} epochs of {} steps, {}, {}\n", config_.epochs, steps_per_epoch(),
                      config_.precision.label(), to_string(device_));
  return text;
}

TrainResult Trainer::run(const RunDirectory& directory, const std::string& command_line,
                         const StopRequest& stop) {
  const RunLock lock(directory);
  std::vector<std::string> notes = notes_;
  RunState state;
  if (options_.resume) state = resume(directory, notes);
  Session session(directory, stop, config_, data_);
  session.state = state;
  const auto ranges = profile::ranges_if_asked(device_);
  if (ranges) ranges->watch(phases_);
  config::Json found = environment();
  found["command_line"] = command_line;
  found["seed"] = config_.seed;
  write_atomically(directory.environment(), found.dump(2) + "\n");
  if (!options_.quiet) session.progress = std::make_unique<Progress>();
  session.log.info(command_line);
  for (const std::string& note : notes) session.say(note);
  if (step_->attempted() == 0) warn_of_underflow(session);
  session.metrics.write(StartEvent{model_->parameter_count(), config_.precision.label(), to_string(device_),
                                   step_->attempted()});
  try {
    train(session);
    conclude_save(session);
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

void Trainer::end(Session& session) {
  const optim::StepReport report = step_->synchronize();
  TrainResult& result = session.result;
  result.steps = report.attempted;
  result.best = session.state.best;
  result.best_epoch = session.state.best_epoch;
  result.wall_s = since(session.started);
  if (report.skipped > 0)
    session.say(fmt::format("{} of {} steps were skipped: their gradients were not finite", report.skipped,
                            report.attempted));
  session.metrics.write(EndEvent{name_of(result.status), report.attempted, report.applied, report.skipped,
                                 result.wall_s, backend_for(device_).memory().peak, result.metrics});
  if (session.progress) session.progress->finish();
}

// Brings model, optimizer and loader to where the newest whole checkpoint was; a run that has saved nothing
// yet begins anew. `notes` gets what there is to say of it.
RunState Trainer::resume(const RunDirectory& directory, std::vector<std::string>& notes) {
  const config::Json now = course_of(config_);
  Checkpoints checkpoints(directory, config_.checkpoint.keep, data_, now);
  const auto newest = checkpoints.newest_whole(notes);
  RunState state;
  if (newest) {
    take_choices(directory, notes);
    const ConfigChanges changes = changes_since(checkpoints.config_of(*newest), now);
    state = checkpoints.load(*newest, *step_, changes.precision);
    train_loader_->seek({static_cast<std::uint32_t>(state.epoch - 1), state.position});
    for (const std::string& change : changes.notes) notes.push_back("changed: " + change);
    if (changes.precision)
      notes.push_back(fmt::format("goes on in {} from the FP32 masters; the loss scale starts at {:g}",
                                  config_.precision.label(), step_->scaler().value()));
    notes.push_back(fmt::format("resumed after step {}, in epoch {}", step_->attempted(), state.epoch));
  } else {
    notes.push_back("the run had saved nothing yet: it begins anew");
  }
  const bool evaluated = state.position == 0 && state.epoch <= config_.epochs;
  forget_later_metrics(directory.metrics(), step_->attempted(), evaluated);
  write_atomically(directory.config(), config::resolved(config_).dump(2) + "\n");
  return state;
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
    const nn::ModulePtr model = make_model(loaded_, data_, train_loader_->pipeline().output_shape());
    initialise_from(config_, *model);
    model->take_padded_images(batch->images.size(-1));  // where the run's model does, the batch is for it
    model->to(device_);
    const RandomScope random(static_cast<std::uint64_t>(config_.seed), 0, 0);
    amp::GradientCollector collector(*model);
    backward(task_->loss((*model)(batch->images), *batch));
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
  RunState& state = session.state;
  while (state.epoch <= config_.epochs && !limit_reached()) {
    const bool whole = train_epoch(session);
    const bool last = !whole || state.epoch == config_.epochs || limit_reached();
    if (session.stop.asked() || !evaluate_and_save(session, whole, last)) {
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
  model_->train();
  const Index batches = train_loader_->batches_per_epoch();
  const Index batch_size = train_loader_->options().batch_size;
  Index served = (session.state.position + batch_size - 1) / batch_size;
  auto step_started = Clock::now();
  Pending pending;
  phases_.start();
  while (served < batches) {
    phases_.begin(Phase::data);
    auto batch = train_loader_->next();
    phases_.finish(Phase::data);
    micro_batch(*batch, pending);
    batch.reset();  // its memory may serve the next one
    ++served;
    if (!step_->ready() && served < batches) continue;
    pending.seconds = since(step_started);
    step_started = Clock::now();
    end_step(session, std::move(pending));
    pending = {};
    if (session.checkpoints.ended()) conclude_save(session);
    if (session.stop.asked() || limit_reached()) break;
    if (served < batches && checkpoint_due(step_->attempted())) save_inside_epoch(session);
  }
  finish_steps(session);
  session.epoch_seconds = since(started);
  session.result.train_s += session.epoch_seconds;
  if (served < batches) return false;
  train_loader_->seek({static_cast<std::uint32_t>(session.state.epoch), 0});
  return true;
}

// Knows the outcome of every step, and where the epoch stands.
void Trainer::finish_steps(Session& session) {
  settle(session, nullptr);
  step_->synchronize();
  read_outcomes(session);
  session.state.position = train_loader_->state().position;
}

void Trainer::micro_batch(const datasets::Batch& batch, Pending& pending) {
  runner_->backward(batch);
  pending.samples += static_cast<double>(batch.size());
  if (in_16_bits()) pending.batches.push_back(batch);
}

void Trainer::end_step(Session& session, Pending pending) {
  settle(session, &pending);
  runner_->apply();
  pending.attempted = step_->attempted();
  session.pending.push_back(std::move(pending));
  if (step_->arrived()) settle(session, nullptr);
  read_outcomes(session);
}

// Makes sure of the outcome of the last 16-bit step. `following` is the step after it, of which everything
// but the update has been done: where the last one has to be run again, it is dropped, and done once more.
void Trainer::settle(Session& session, const Pending* following) {
  if (!in_16_bits() || session.pending.empty() || session.pending.back().settled) return;
  Pending& last = session.pending.back();
  last.settled = true;
  const optim::StepReport report = step_->synchronize();
  const bool hopeless = report.exhausted || report.consecutive_skips >= config_.precision.max_skips;
  const bool examined = session.state.diagnosed < config_.precision.diagnose;
  if (report.skip && (hopeless || examined || retries())) {
    if (following) step_->clear();
    run_again(session, last, report);
    if (following) {
      for (const datasets::Batch& batch : following->batches) runner_->backward(batch);
    }
  }
  last.batches.clear();
}

// A step that overflowed is diagnosed, and retried at the lower scale where the configuration says so.
void Trainer::run_again(Session& session, Pending& pending, optim::StepReport report) {
  while (report.skip) {
    const bool hopeless = report.exhausted || report.consecutive_skips >= config_.precision.max_skips;
    std::optional<amp::Overflow> cause;
    if (hopeless || session.state.diagnosed < config_.precision.diagnose) {
      ++session.state.diagnosed;
      cause = diagnose(session, pending, report);
    }
    if (hopeless) give_up(report, cause);
    // A loss that is not finite is so at any scale; log_step says what that means.
    if (!retries() || !std::isfinite(report.loss)) return;
    for (const datasets::Batch& batch : pending.batches) runner_->backward(batch);
    runner_->apply();
    pending.attempted = step_->attempted();
    report = step_->synchronize();
  }
}

// Ends a run whose steps are skipped without end.
void Trainer::give_up(const optim::StepReport& report, const std::optional<amp::Overflow>& cause) const {
  const std::string why =
      report.exhausted
          ? fmt::format(
                "the step overflowed at a loss scale of {}, the lowest there is (precision.scaler.floor)",
                report.loss_scale)
          : fmt::format(
                "{} steps in a row were skipped (precision.max_skips), the last at a loss scale of {}",
                report.consecutive_skips, report.loss_scale);
  const bool lower_scale = cause && cause->caused_by_scale && !step_->scaler().options().moves();
  throw Diverged{
      fmt::format("step {}: {}; {}{}", report.attempted, why,
                  cause ? amp::to_string(*cause) : "no op was found to overflow when the step was run again",
                  lower_scale ? "; take a lower static scale, or \"scaler\": \"dynamic\""
                              : "; try a lower optimizer.lr, schedule.warmup_steps or clip_norm")};
}

// Names what overflowed, in the log and to the user.
std::optional<amp::Overflow> Trainer::diagnose(Session& session, const Pending& pending,
                                               const optim::StepReport& report) {
  // What the step's random numbers were numbered by: the count before it.
  const auto number = static_cast<std::uint32_t>(retries() ? report.applied : report.attempted - 1);
  const auto overflow = amp::find_overflow(
      *model_, static_cast<int>(pending.batches.size()),
      [&](int i) { return runner_->loss(pending.batches[static_cast<std::size_t>(i)], i, number); },
      report.loss_scale);
  step_->clear();
  if (!overflow) return {};
  session.metrics.write(OverflowEvent{report.attempted, report.loss_scale, overflow->op, overflow->tensor,
                                      overflow->index, overflow->forward ? "forward" : "backward",
                                      overflow->caused_by_scale ? "scale" : "intrinsic"});
  session.say(fmt::format("step {} overflowed at loss scale {} and was {}: {}", report.attempted,
                          report.loss_scale, retries() ? "retried" : "skipped", amp::to_string(*overflow)));
  return overflow;
}

// The outcome of a step is read when it has arrived, at most one step late; of one in 16 bits when it is
// settled, since it may be run again until then.
void Trainer::read_outcomes(Session& session) {
  while (!session.pending.empty()) {
    const Pending& next = session.pending.front();
    if (in_16_bits() && !next.settled) return;
    if (next.attempted == step_->attempted() && !step_->arrived()) return;
    log_step(session, next, step_->report_of(next.attempted));
    session.pending.pop_front();
  }
}

void Trainer::log_step(Session& session, const Pending& pending, const optim::StepReport& report) {
  double loss = report.loss;
  const double samples = pending.samples;
  session.state.epoch_loss += loss * samples;
  session.state.epoch_samples += samples;
  session.own_samples += samples;
  session.step_seconds =
      session.step_seconds == 0.0 ? pending.seconds : 0.9 * session.step_seconds + 0.1 * pending.seconds;
  const bool diverged = !std::isfinite(loss);
  if (std::isnan(loss)) loss = std::numeric_limits<double>::quiet_NaN();  // printed without a sign
  if (pending.attempted % config_.log_every == 0 || diverged)
    session.metrics.write(StepEvent{pending.attempted, report.applied, session.state.epoch, loss,
                                    report.learning_rate, report.loss_scale, report.skipped,
                                    report.gradient_norm, samples / pending.seconds});
  if (diverged && config_.on_divergence == "stop")
    throw Diverged{fmt::format(
        "step {} (epoch {}): the loss is {}, at a learning rate of {:g}; try a lower optimizer.lr, "
        "schedule.warmup_steps or clip_norm, or go on regardless with on_divergence=continue",
        pending.attempted, session.state.epoch, loss, report.learning_rate)};
  if (!in_16_bits() && report.consecutive_skips >= config_.precision.max_skips)
    throw Diverged{
        fmt::format("step {}: {} steps in a row were skipped (precision.max_skips): their gradients are not "
                    "finite; try a lower optimizer.lr, schedule.warmup_steps or clip_norm",
                    report.attempted, report.consecutive_skips)};
  if (!session.progress) return;
  const std::int64_t per_epoch = steps_per_epoch();
  session.progress->update({.epoch = session.state.epoch,
                            .epochs = config_.epochs,
                            .step = (pending.attempted - 1) % per_epoch + 1,
                            .steps = per_epoch,
                            .total_step = pending.attempted,
                            .total_steps = per_epoch * config_.epochs,
                            .loss = loss,
                            .lr = report.learning_rate,
                            .items_per_s = samples / session.step_seconds});
}

// Returns false when a stop was asked for before the evaluation had ended.
bool Trainer::evaluate_and_save(Session& session, bool whole, bool last) {
  bool best = false;
  const auto due = [&](std::int64_t every) {
    return last || (every > 0 && session.state.epoch % every == 0);
  };
  const std::int64_t epoch = session.state.epoch, step = step_->attempted();
  // The averages are what is evaluated and saved, where there are any.
  std::optional<optim::Ema::Scope> averaged;
  if (step_->ema()) averaged.emplace(*step_->ema());
  if (due(config_.eval.every_epochs)) {
    if (!evaluate_now(session, *eval_loader_, eval_split_, last && config_.eval.confusion)) return false;
    session.metrics.write_tensors(*step_, epoch);
    const std::string& key = config_.checkpoint.best;
    const double value = metric(session.result.metrics, key);
    const bool greater = task_->greater_is_better(key);
    if (!session.state.best || (greater ? value > *session.state.best : value < *session.state.best)) {
      conclude_save(session);
      session.before_best = session.state;
      session.state.best = value;
      session.state.best_epoch = epoch;
      best = true;
    }
  }
  const bool crossed = checkpoint_due(step);
  if (!best && !crossed && !due(config_.checkpoint.every_epochs)) return true;
  conclude_save(session);
  session.checkpoints.take_weights(*model_, epoch, step);
  averaged.reset();
  RunState next = session.state;
  if (whole) begin_next_epoch(next);
  save(session, next, best);
  return true;
}

// Of checkpoint.every_steps.
bool Trainer::checkpoint_due(std::int64_t step) const {
  const auto& every = config_.checkpoint.every_steps;
  return every && step % *every == 0;
}

void Trainer::save_inside_epoch(Session& session) {
  conclude_save(session);
  finish_steps(session);
  save_unevaluated(session);
}

void Trainer::save_unevaluated(Session& session) {
  std::optional<optim::Ema::Scope> averaged;
  if (step_->ema()) averaged.emplace(*step_->ema());
  session.checkpoints.take_weights(*model_, session.state.epoch, step_->attempted());
  averaged.reset();
  save(session, session.state, false);
}

// With the choice among algorithms, by which a resumed run rounds as this one does.
void Trainer::save(Session& session, const RunState& state, bool best) {
  const std::string choices = backend_for(device_).choices();
  if (!choices.empty()) write_atomically(session.directory.algorithms(), choices);
  session.checkpoints.save(*step_, state, best);
  if (best) session.state.best_checkpoint = CheckpointStore::name_of(step_->attempted());
}

// Waits for the save under way, if any, and says what became of it.
void Trainer::conclude_save(Session& session) {
  try {
    const auto saved = session.checkpoints.finish();
    if (!saved) return;
    session.metrics.write_checkpoint(saved->step, saved->path);
    session.save_error.clear();
    session.before_best.reset();
  } catch (const std::exception& error) {
    if (!goes_on_without_saving(config_)) throw;
    session.save_error = error.what();
    if (const auto before = std::exchange(session.before_best, {})) {
      session.state.best = before->best;
      session.state.best_epoch = before->best_epoch;
      session.state.best_checkpoint = before->best_checkpoint;
    }
    session.warn(fmt::format("the checkpoint was not saved: {}; training goes on (checkpoint.on_save_error)",
                             error.what()));
  }
}

// Before anything of the run is computed.
void Trainer::take_choices(const RunDirectory& directory, std::vector<std::string>& notes) {
  const std::string path = directory.algorithms();
  std::ifstream file(path);
  if (!file) return;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!backend_for(device_).adopt_choices(text))
    notes.push_back(fmt::format("{} is of another device or library: algorithms are timed anew", path));
}

// Returns false when a stop was asked for on the way.
bool Trainer::evaluate_now(Session& session, datasets::Loader& loader, const std::string& split,
                           bool confusion) {
  const auto evaluation = evaluate(*model_, loader, *task_, confusion, &session.stop);
  if (!evaluation) return false;
  session.result.metrics = evaluation->metrics();
  session.result.split = split;
  session.metrics.write(EvalEvent{step_->attempted(), session.state.epoch, split, session.result.metrics});
  if (const ConfusionMatrix* matrix = evaluation->confusion())
    write_atomically(session.directory.path() / "confusion.csv", matrix->csv(data_.info.class_names));
  std::string training;
  const RunState& state = session.state;
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
  load_run_weights(session.directory, "best", *model_);
  session.state.epoch_loss = session.state.epoch_samples = 0.0;
  evaluate_now(session, *test_loader_, "test", config_.eval.confusion);
}

// An epoch that was trained but not evaluated is evaluated first when the run goes on.
void Trainer::interrupt(Session& session) {
  session.result.status = TrainStatus::interrupted;
  conclude_save(session);
  save_unevaluated(session);
}

}  // namespace tandem::train
