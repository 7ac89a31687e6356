// Checkpoints of a run: when they are saved, and how a run resumes from them.
#include <utility>

#include "config/task.h"
#include "core/algorithms.h"
#include "files/input.h"
#include "files/json_text.h"
#include "runs/weights.h"
#include "tasks/record.h"
#include "train/resume.h"
#include "train/trainer_session.h"

namespace tandem::train {

namespace {

// Prefix of the names of carried state in a checkpoint.
std::string carry_prefix(const std::string& phase) { return phase + "carry."; }

// Moves the carried state of a phase out of the tensors.
tasks::CarriedState taken_carry(std::vector<optim::NamedTensor>& tensors, const std::string& phase,
                                Device device) {
  const std::string prefix = carry_prefix(phase);
  tasks::CarriedState carry;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) carry.set(name.substr(prefix.size()), tensor.to(device));
  std::erase_if(tensors, [&](const optim::NamedTensor& named) { return named.first.starts_with(prefix); });
  return carry;
}

// A resumed run must have the same data.
void require_same_data(const tasks::Data& data, const std::string& weights, Index training_samples) {
  if (runs::has_saved_data(safetensors::File(weights))) data.require_like(runs::saved_data(weights), weights);
  const Index now = data.training_samples();
  require(training_samples == 0 || now == 0 || training_samples == now, "",
          "{}: the run was training on {} samples, its data has {} now; restore the data, or start a new run "
          "from these weights: init_from=RUN",
          weights, training_samples, now);
}

}  // namespace

tasks::Record Trainer::Resumed::to_record() const {
  tasks::RecordWriter writer;
  writer.put_text(checkpoint).put(converting).put_text(files::json_text(runs::to_json(run)));
  writer.put(tensors.size());
  for (const auto& [name, tensor] : tensors) writer.put_text(name).put_tensor(tensor);
  return std::move(writer).record();
}

Trainer::Resumed Trainer::Resumed::from_record(std::span<const std::byte> record) {
  tasks::RecordReader reader(record);
  Resumed resumed;
  resumed.checkpoint = reader.take_text();
  resumed.converting = reader.take<bool>();
  resumed.run = runs::run_state_in(config::Json::parse(reader.take_text()), "the state of rank 0");
  for (auto left = reader.take<std::size_t>(); left > 0; --left) {
    std::string name = reader.take_text();
    resumed.tensors.emplace_back(std::move(name), reader.take_tensor());
  }
  reader.end();
  return resumed;
}

// Appends to `notes` what users should know, and to `warnings` what is damaged.
Trainer::Resumed Trainer::read_checkpoint(const runs::RunDirectory& directory,
                                          std::vector<std::string>& notes,
                                          std::vector<std::string>& warnings) {
  const config::Json now = config_without_run_dir(config_);
  runs::Checkpoints checkpoints(directory, config_.checkpoint.keep, task_->data()->description(), now);
  const auto newest = checkpoints.newest_whole(warnings);
  Resumed resumed;
  if (newest) {
    if (device_.type == DeviceType::cpu) {
      const std::string note = note_on_level(directory, config_.deterministic);
      if (!note.empty()) notes.push_back(note);
    }
    if (const std::string note = note_on_ranks(directory, ranks_.size()); !note.empty())
      notes.push_back(note);
    adopt_algorithms(directory, notes);
    const ConfigChanges changes = changes_since(checkpoints.config_of(*newest), now);
    runs::SavedState saved = checkpoints.load(*newest);
    require(saved.run.epoch_losses.size() == learners_->size(), "",
            "{}: its state has {} phases, this task has {}", *newest, saved.run.epoch_losses.size(),
            learners_->size());
    require_same_data(*task_->data(), runs::weights_path(directory, *newest), saved.run.training_samples);
    checkpoints.adopt(saved.run);
    for (const std::string& change : changes.notes) notes.push_back("changed: " + change);
    resumed = {*newest, std::move(saved.run), std::move(saved.tensors), changes.precision, {}};
  }
  return resumed;
}

// Removes metrics after the resumed state and restores missing ones.
void Trainer::repair_metrics(const runs::RunDirectory& directory, const Resumed& resumed,
                             std::vector<std::string>& warnings) {
  const runs::Checkpoints checkpoints(directory, config_.checkpoint.keep, task_->data()->description(),
                                      config_without_run_dir(config_));
  const std::int64_t step = learners_->iterations();
  for (std::string& warning : runs::repair_metrics(
           directory,
           {.step = step,
           .epoch_trained =
                resumed.found() && (resumed.run.position == 0 ||
                                    train_loader_->batches_served() == train_loader_->batches_per_epoch()),
           .evaluated = resumed.run.position == 0 && resumed.run.epoch <= config_.epochs,
           .mark = resumed.found() ? checkpoints.metrics_of(resumed.checkpoint) : std::nullopt,
           .checkpoints = resumed.found() ? checkpoints.until(step) : std::vector<runs::SavedStep>()}))
    warnings.push_back(std::move(warning));
  files::write_atomically(directory.config(), files::json_text(config::resolved(given_.config), 2) + "\n");
}

// Restores model, optimizer and loader of every rank from the first rank's checkpoint.
Trainer::Resumed Trainer::resume(const runs::RunDirectory* directory, std::vector<std::string>& notes,
                                 std::vector<std::string>& warnings) {
  Resumed resumed =
      ranks_.together([&] { return directory ? read_checkpoint(*directory, notes, warnings) : Resumed(); });
  if (ranks_.several())
    resumed = Resumed::from_record(ranks_.from_first(ranks_.first() ? resumed.to_record() : tasks::Record()));
  ranks_.together([&] {
    if (resumed.found()) take_state(resumed);
    if (directory) repair_metrics(*directory, resumed, warnings);
  });
  if (!resumed.found()) notes.push_back("the run had saved nothing yet: it starts from the beginning");
  if (resumed.converting)
    notes.push_back(fmt::format("resumes in {} from the FP32 masters; the loss scale starts at {:g}",
                                config_.precision.label(), learners_->loss_scale(0)));
  if (resumed.found())
    notes.push_back(
        fmt::format("resumed after step {}, in epoch {}", learners_->iterations(), resumed.run.epoch));
  return resumed;
}

void Trainer::take_state(Resumed& resumed) {
  for (std::size_t phase = 0; phase < learners_->size(); ++phase)
    resumed.carries.push_back(
        ranks_.parts(taken_carry(resumed.tensors, learners_->prefix_of(phase), device_)));
  learners_->load_state(resumed.tensors, resumed.converting);
  set_rate_factor(resumed.run);
  train_loader_->seek({static_cast<std::uint32_t>(resumed.run.epoch - 1), resumed.run.position});
}

void Trainer::save_inside_epoch(Session& session) {
  session.saves.conclude(session.state);
  finish_steps(session);
  save_unevaluated(session);
}

void Trainer::save_unevaluated(Session& session) {
  AveragedWeights averaged(*learners_);
  take_weights(session, averaged);
  save(session, session.state, false, true);
}

// Saves the averages, if there are any; the trained weights are active again afterwards.
void Trainer::take_weights(Session& session, AveragedWeights& averaged) {
  session.saves.take_weights(task_->model(), session.state.epoch, learners_->iterations());
  averaged.leave();
}

// Saves before an evaluation, so that its failure loses no training. A repeated evaluation follows no step
// and needs no save.
void Trainer::save_before_evaluation(Session& session, AveragedWeights& averaged) {
  const bool trained = session.state.position > 0;
  if (!ranks_.any(trained && !session.saves.holds(learners_->iterations()))) return;
  averaged.leave();
  session.saves.conclude(session.state);
  save_unevaluated(session);
  ranks_.together([&] { session.saves.conclude(session.state); });
  averaged = AveragedWeights(*learners_);
}

// Tensors that a resume needs, of all ranks, on the first rank.
std::vector<optim::NamedTensor> Trainer::tensors_to_save(const Session& session) {
  if (config_.parallel.check_every > 0)
    check_ranks(fmt::format("before the checkpoint of step {}:", learners_->iterations()));
  std::vector<tasks::CarriedState> carries;  // by phase, of the whole batch
  for (const auto& own : session.pipeline.carries()) carries.push_back(ranks_.whole(own));
  std::vector<optim::NamedTensor> tensors = learners_->state();
  for (std::size_t phase = 0; phase < carries.size(); ++phase)
    for (const auto& field : carries[phase].fields())
      tensors.emplace_back(carry_prefix(learners_->prefix_of(phase)) + field.name, field.value);
  return tensors;
}

// Also saves the choices of algorithms, so that a resumed run rounds in the same way. Unless `anew`, the
// checkpoint of this step already has weights and tensors, and only the run state is saved.
void Trainer::save(Session& session, const runs::RunState& state, bool best, bool anew) {
  const std::int64_t step = learners_->iterations();
  const auto tensors = anew ? std::optional(tensors_to_save(session)) : std::nullopt;
  const std::string choices = backend_for(device_).tuning_cache();
  if (!choices.empty() && !read_algorithms(choices).choices.empty())
    session.output.write(runs::kAlgorithmsFile, choices);
  session.saves.save(step, tensors, state, best);
  if (best) session.state.best_checkpoint = runs::CheckpointStore::name_of(step);
}

// Restores the choices of algorithms; call it before anything is computed.
void Trainer::adopt_algorithms(const runs::RunDirectory& directory, std::vector<std::string>& notes) {
  const std::string path = directory.algorithms();
  const auto text = files::read_text_if_there(path);
  if (text && !backend_for(device_).adopt_tuning_cache(*text))
    notes.push_back(fmt::format("{} is for another device or library: algorithms are timed again", path));
}

// A resumed run starts with the evaluation of an epoch that was trained but not evaluated. Rethrows the error
// of a failed evaluation.
void Trainer::interrupt(Session& session) {
  session.result.status = TrainStatus::interrupted;
  try {
    session.saves.conclude(session.state);
    if (ranks_.any(!session.saves.saved(learners_->iterations()))) save_unevaluated(session);
    if (session.evaluation_error) session.saves.conclude(session.state);
  } catch (const std::exception& error) {
    if (!session.evaluation_error) throw;
    session.output.log().error(error.what());  // the first error is rethrown
  }
  if (session.evaluation_error) std::rethrow_exception(session.evaluation_error);
}

}  // namespace tandem::train
