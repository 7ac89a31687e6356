// A run's checkpoints: when they are taken, what becomes of them, and going on from one.
#include <cmath>
#include <utility>

#include "config/task.h"
#include "files/input.h"
#include "files/json_text.h"
#include "train/resume.h"
#include "train/trainer_session.h"

namespace tandem::train {

namespace {

// A figure that is not finite is better than none, and no other.
bool is_better(double value, const std::optional<double>& best, bool greater) {
  if (!best) return true;
  if (!std::isfinite(value)) return false;
  if (!std::isfinite(*best)) return true;
  return greater ? value > *best : value < *best;
}

// Of the names under which a checkpoint holds what the next micro-batch begins with.
std::string carry_prefix(const std::string& phase) { return phase + "carry."; }

// Takes the carry of a phase out of a state.
tasks::Carry taken_carry(std::vector<optim::NamedTensor>& tensors, const std::string& phase, Device device) {
  const std::string prefix = carry_prefix(phase);
  tasks::Carry carry;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) carry.set(name.substr(prefix.size()), tensor.to(device));
  std::erase_if(tensors, [&](const optim::NamedTensor& named) { return named.first.starts_with(prefix); });
  return carry;
}

std::vector<optim::Step*> steps_of(Learners& learners) {
  std::vector<optim::Step*> steps;
  for (const Learner& learner : learners) steps.push_back(learner.step.get());
  return steps;
}

}  // namespace

// Brings model, optimizer and loader to where the newest whole checkpoint was; a run that has saved nothing
// yet begins anew. `notes` gets what there is to say of it, `warnings` what was found damaged.
runs::RunState Trainer::resume(const runs::RunDirectory& directory, std::vector<std::string>& notes,
                               std::vector<std::string>& warnings) {
  const config::Json now = course_of(config_);
  runs::Checkpoints checkpoints(directory, config_.checkpoint.keep, task_->data()->description(), now);
  const auto newest = checkpoints.newest_whole(warnings);
  runs::RunState state;
  state.epoch_losses.assign(learners_->size(), 0.0);
  if (newest) {
    if (device_.type == DeviceType::cpu) {
      const std::string note = note_on_level(directory, config_.deterministic);
      if (!note.empty()) notes.push_back(note);
    }
    take_choices(directory, notes);
    const ConfigChanges changes = changes_since(checkpoints.config_of(*newest), now);
    runs::SavedState saved = checkpoints.load(*newest);
    require(saved.run.epoch_losses.size() == learners_->size(), "",
            "{}: its state is of {} phases, this task has {}", *newest, saved.run.epoch_losses.size(),
            learners_->size());
    for (std::size_t phase = 0; phase < carries_.size(); ++phase)
      carries_[phase] = taken_carry(saved.tensors, learners_->prefix_of(phase), device_);
    learners_->load_state(saved.tensors, changes.precision);
    checkpoints.adopt(saved.run);
    state = saved.run;
    set_rate_factor(state);
    train_loader_->seek({static_cast<std::uint32_t>(state.epoch - 1), state.position});
    for (const std::string& change : changes.notes) notes.push_back("changed: " + change);
    if (changes.precision)
      notes.push_back(fmt::format("goes on in {} from the FP32 masters; the loss scale starts at {:g}",
                                  config_.precision.label(), learners_->loss_scale(0)));
    notes.push_back(fmt::format("resumed after step {}, in epoch {}", learners_->iterations(), state.epoch));
  } else {
    notes.push_back("the run had saved nothing yet: it begins anew");
  }
  const std::int64_t step = learners_->iterations();
  for (std::string& warning : runs::mend_metrics(
           directory, {.step = step,
                      .evaluated = state.position == 0 && state.epoch <= config_.epochs,
                      .mark = newest ? checkpoints.metrics_of(*newest) : std::nullopt,
                      .checkpoints = newest ? checkpoints.until(step) : std::vector<runs::SavedStep>()}))
    warnings.push_back(std::move(warning));
  files::write_atomically(directory.config(), files::json_text(config::resolved(config_), 2) + "\n");
  return state;
}

// Returns false when a stop was asked for before the evaluation had ended.
bool Trainer::evaluate_and_save(Session& session, bool whole, bool last) {
  bool best = false;
  const auto due = [&](std::int64_t every) {
    return last || (every > 0 && session.state.epoch % every == 0);
  };
  const std::int64_t epoch = session.state.epoch, step = learners_->iterations();
  // The averages are what is evaluated and saved, where there are any.
  AveragedWeights averaged(*learners_);
  if (due(config_.eval.every_epochs)) {
    if (!evaluate_now(session, *eval_loader_, task_->validation_split(), last && task_->keeps_details()))
      return false;
    session.metrics.write_tensors(steps_of(*learners_), step, epoch);
    const std::string key = config_.best();
    const double value = runs::metric(session.result.metrics, key);
    if (is_better(value, session.state.best,
                  tasks::kind_of(config::metrics(config_), key).greater_is_better)) {
      conclude_save(session);
      session.before_best = session.state;
      session.state.best = value;
      session.state.best_epoch = epoch;
      best = true;
    }
    if (whole) take_figure(session, value);
  }
  if (!best && !checkpoint_due(session) && !due(config_.checkpoint.every_epochs)) return true;
  conclude_save(session);
  session.checkpoints.take_weights(task_->model(), epoch, step);
  averaged.leave();
  runs::RunState next = session.state;
  if (whole) begin_next_epoch(next);
  save(session, next, best);
  return true;
}

// Of checkpoint.every_steps.
bool Trainer::checkpoint_due(const Session& session) const {
  const auto& every = config_.checkpoint.every_steps;
  return every && passes_multiple(session.saved_step, learners_->iterations(), *every);
}

void Trainer::save_inside_epoch(Session& session) {
  conclude_save(session);
  finish_steps(session);
  save_unevaluated(session);
}

void Trainer::save_unevaluated(Session& session) {
  AveragedWeights averaged(*learners_);
  session.checkpoints.take_weights(task_->model(), session.state.epoch, learners_->iterations());
  averaged.leave();
  save(session, session.state, false);
}

// With the choice among algorithms, by which a resumed run rounds as this one does.
void Trainer::save(Session& session, const runs::RunState& state, bool best) {
  const std::string choices = backend_for(device_).tuning_cache();
  if (!choices.empty()) session.write_beside(session.directory.algorithms(), choices);
  std::vector<optim::NamedTensor> tensors = learners_->state();
  for (std::size_t phase = 0; phase < carries_.size(); ++phase)
    for (const datasets::Field& field : carries_[phase].fields())
      tensors.emplace_back(carry_prefix(learners_->prefix_of(phase)) + field.name, field.value);
  session.checkpoints.save(learners_->iterations(), tensors, state, best, session.metrics.mark());
  session.saved_step = learners_->iterations();
  if (best) session.state.best_checkpoint = runs::CheckpointStore::name_of(learners_->iterations());
}

// Waits for the save under way, if any, and says what became of it.
void Trainer::conclude_save(Session& session) {
  try {
    const auto saved = session.checkpoints.finish();
    if (!saved) return;
    // The state that the run went on from may be saved again, evaluated; it has been written of.
    if (saved->step != session.resumed_at) session.metrics.write_checkpoint(saved->step, saved->path);
    session.save_error.clear();
    session.before_best.reset();
  } catch (const std::exception& error) {
    if (!session.survives_write_errors) throw;
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
void Trainer::take_choices(const runs::RunDirectory& directory, std::vector<std::string>& notes) {
  const std::string path = directory.algorithms();
  const auto text = files::read_text_if_there(path);
  if (text && !backend_for(device_).adopt_tuning_cache(*text))
    notes.push_back(fmt::format("{} is of another device or library: algorithms are timed anew", path));
}

// An epoch that was trained but not evaluated is evaluated first when the run goes on.
void Trainer::interrupt(Session& session) {
  session.result.status = TrainStatus::interrupted;
  conclude_save(session);
  save_unevaluated(session);
}

}  // namespace tandem::train
