#include "train/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "amp/gradient_histogram.h"
#include "autograd/engine.h"
#include "config/load.h"
#include "core/error.h"
#include "core/guard.h"
#include "core/random.h"
#include "core/units.h"
#include "data/decorators.h"
#include "files/json_text.h"
#include "files/write.h"
#include "models/builder.h"
#include "runs/environment.h"
#include "train/evaluate.h"
#include "train/footprint.h"
#include "train/guarded_ops.h"
#include "train/perturbation.h"
#include "train/ranges.h"
#include "train/trainer_session.h"

namespace tandem::train {

namespace {

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

Trainer::Trainer(const config::Loaded& loaded, TrainerOptions options)
    : loaded_(loaded), config_(loaded.config), device_(device_of(loaded.config)), options_(options) {
  splits_ = open_data(config_, skipped_.reporter());
  data_ = describe_data(splits_);
  const datasets::Pipeline pipeline = datasets::training_pipeline(splits_, transforms());
  sample_ = pipeline.output_shape();
  if (device_ == Device{}) require_memory(loaded_, footprint_of(loaded_, data_));
  model_ = make_model(loaded_, data_, sample_);
  notes_ = initialise_from(config_, *model_);
  if (const std::string note = precision_note(config_, device_); !note.empty()) notes_.push_back(note);
  perturb(*model_, static_cast<std::uint64_t>(config_.seed), config_.init_ulps);
  precision_ = make_plan(loaded_, *model_);
  task_ = tasks::make_task(config_, models::output_shape(*model_, sample_, pipeline.output_dtype()));
  make_loaders(tasks::image_format(*model_, *precision_, sample_, device_, pipeline.output_dtype()));
  model_->to(device_);
  optimizer_ = make_optimizer(config_, *model_);
  const std::int64_t per_epoch = steps_per_epoch();
  step_ = std::make_unique<optim::Step>(
      *model_, std::vector<optim::Optimizer*>{optimizer_.get()},
      step_options(config_, make_schedule(config_, per_epoch, per_epoch * config_.epochs)));
  runner_ =
      std::make_unique<StepRunner>(*model_, *precision_, *task_, *step_, phases_,
                                   StepRunnerOptions{.batch_size = train_loader_->source().layout().samples(),
                                                     .seed = static_cast<std::uint64_t>(config_.seed),
                                                     .number_by_applied = retries(),
                                                     .graphs = graph_use(config_),
                                                     .by_weight = config_.loss.by_class_weights()});
}

Trainer::~Trainer() = default;

// Of training images, in order.
std::vector<datasets::TransformSpec> Trainer::transforms() const {
  const auto augment = augmentations(config_);
  return config_.data.overfit_batches > 0 ? datasets::evaluation_transforms(augment) : augment;
}

// `format` is that of training; evaluation is in FP32.
void Trainer::make_loaders(const tasks::ImageFormat& format) {
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
                              .channel_multiple = format.channel_multiple,
                              .weigh = task_->batch_weight()});
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
  const double loss = task_->loss((*model_)((*batch)["image"]), *batch).item();
  step_->clear();
  std::string text = fmt::format("{}: {} training, {} {} samples, {} classes\n", data_.info.name,
                                 train_loader_->samples_per_epoch(), eval_loader_->samples_per_epoch(),
                                 eval_split_, data_.info.classes);
  text += fmt::format("model: {} parameters, {} trained\n", model_->parameter_count(),
                      model_->parameter_count(true));
  for (const std::string& note : notes_) text += note + "\n";
  const Index zeros = (*batch)["image"].size(-1) - sample_.at(-1);
  text += fmt::format("batch: {}{} → loss {:.4f}\n", to_string((*batch)["image"].shape()),
                      zeros > 0 ? fmt::format(", {} of the channels zero", zeros) : "", loss);
  if (skipped_.count() > 0) text += text_of_skipped(skipped_.count()) + "\n";
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
  Session session(directory, stop, config_, data_);
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
  session.metrics.write(runs::StartEvent{model_->parameter_count(), config_.precision.label(),
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
  result.chosen_on = eval_split_;
  result.best_epoch = session.state.best_epoch;
  result.wall_s = since(session.started);
  tell_skipped(session);
  if (skipped_.count() > 0) session.warn(text_of_skipped(skipped_.count()));
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
    const nn::ModulePtr model = make_model(loaded_, data_, sample_);
    initialise_from(config_, *model);
    model->take_padded_images((*batch)["image"].size(-1));  // where the run's model does, the batch is for it
    model->to(device_);
    const RandomScope random(static_cast<std::uint64_t>(config_.seed), 0, 0);
    amp::GradientCollector collector(*model);
    backward(task_->loss((*model)((*batch)["image"]), *batch));
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
  model_->train();
  const Index batches = train_loader_->batches_per_epoch();
  Index served = train_loader_->batches_served();
  auto step_started = Clock::now();
  Pending pending;
  phases_.start();
  while (served < batches) {
    phases_.begin(Phase::data);
    auto batch = train_loader_->next();
    phases_.finish(Phase::data);
    micro_batch(session, *batch, pending);
    batch.reset();  // its memory may serve the next one
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

void Trainer::micro_batch(Session& session, const datasets::Batch& batch, Pending& pending) {
  runner_->backward(batch);
  pending.samples += static_cast<double>(batch.samples);
  if (!in_16_bits()) return;
  pending.batches.push_back(batch);
  settle(session, &pending);  // after the first one: lets the batches of the step before go
}

// Returns false when a stop was asked for on the way.
bool Trainer::evaluate_now(Session& session, datasets::Loader& loader, const std::string& split,
                           bool confusion) {
  const auto evaluation = evaluate(*model_, loader, *task_, confusion, &session.stop);
  tell_skipped(session);
  if (!evaluation) return false;
  session.result.metrics = evaluation->metrics();
  session.result.epoch = session.state.epoch;
  session.result.split = split;
  session.metrics.write(
      runs::EvalEvent{step_->attempted(), session.state.epoch, split, session.result.metrics});
  if (const tasks::ConfusionMatrix* matrix = evaluation->confusion())
    session.write_beside(session.directory.path() / "confusion.csv", matrix->csv(data_.info.class_names));
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
  runs::load_run_weights(session.directory, "best", *model_);
  session.state.epoch_loss = session.state.epoch_samples = 0.0;
  evaluate_now(session, *test_loader_, "test", config_.eval.confusion);
}

}  // namespace tandem::train
