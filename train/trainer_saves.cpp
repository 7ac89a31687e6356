// A run's checkpoints: when they are taken, what becomes of them, and going on from one.
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

// Of the names under which a checkpoint holds what the next micro-batch begins with.
std::string carry_prefix(const std::string& phase) { return phase + "carry."; }

// Takes the carry of a phase out of a state.
tasks::CarriedState taken_carry(std::vector<optim::NamedTensor>& tensors, const std::string& phase,
                                Device device) {
  const std::string prefix = carry_prefix(phase);
  tasks::CarriedState carry;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) carry.set(name.substr(prefix.size()), tensor.to(device));
  std::erase_if(tensors, [&](const optim::NamedTensor& named) { return named.first.starts_with(prefix); });
  return carry;
}

// A run goes on with the data that it began with.
void require_same_data(const tasks::Data& data, const std::string& weights, Index training_samples) {
  if (runs::has_saved_data(safetensors::File(weights))) data.require_like(runs::saved_data(weights), weights);
  const Index now = data.training_samples();
  require(
      training_samples == 0 || now == 0 || training_samples == now, "",
      "{}: the run was training on {} samples, its data has {} now; bring back the data, or start a new run "
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

// `notes` gets what there is to say of it, `warnings` what was found damaged.
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
    take_choices(directory, notes);
    const ConfigChanges changes = changes_since(checkpoints.config_of(*newest), now);
    runs::SavedState saved = checkpoints.load(*newest);
    require(saved.run.epoch_losses.size() == learners_->size(), "",
            "{}: its state is of {} phases, this task has {}", *newest, saved.run.epoch_losses.size(),
            learners_->size());
    require_same_data(*task_->data(), runs::weights_path(directory, *newest), saved.run.training_samples);
    checkpoints.adopt(saved.run);
    for (const std::string& change : changes.notes) notes.push_back("changed: " + change);
    resumed = {*newest, std::move(saved.run), std::move(saved.tensors), changes.precision, {}};
  }
  return resumed;
}

// The run goes on from that state: what was written of it after that goes, what is missing comes back.
void Trainer::repair_metrics(const runs::RunDirectory& directory, const Resumed& resumed,
                             std::vector<std::string>& warnings) {
  const runs::Checkpoints checkpoints(directory, config_.checkpoint.keep, task_->data()->description(),
                                      config_without_run_dir(config_));
  const std::int64_t step = learners_->iterations();
  for (std::string& warning : runs::mend_metrics(
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

// Brings model, optimizer and loader of every rank to where the first one finds that the run was.
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
  if (!resumed.found()) notes.push_back("the run had saved nothing yet: it begins anew");
  if (resumed.converting)
    notes.push_back(fmt::format("goes on in {} from the FP32 masters; the loss scale starts at {:g}",
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

// The averages where there are any; what trains on is back afterwards.
void Trainer::take_weights(Session& session, AveragedWeights& averaged) {
  session.saves.take_weights(task_->model(), session.state.epoch, learners_->iterations());
  averaged.leave();
}

// What was trained is on the disk before an evaluation, whatever becomes of that. An evaluation that is
// repeated follows no step.
void Trainer::save_before_evaluation(Session& session, AveragedWeights& averaged) {
  const bool trained = session.state.position > 0;
  if (!ranks_.any(trained && !session.saves.holds(learners_->iterations()))) return;
  averaged.leave();
  session.saves.conclude(session.state);
  save_unevaluated(session);
  ranks_.together([&] { session.saves.conclude(session.state); });
  averaged = AveragedWeights(*learners_);
}

// What it takes to go on, of all ranks, for the first one.
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

// With the choice among algorithms, by which a resumed run rounds as this one does. Unless `anew`, the
// checkpoint of this step has the weights and tensors: only where the run stands is another.
void Trainer::save(Session& session, const runs::RunState& state, bool best, bool anew) {
  const std::int64_t step = learners_->iterations();
  const auto tensors = anew ? std::optional(tensors_to_save(session)) : std::nullopt;
  const std::string choices = backend_for(device_).tuning_cache();
  if (!choices.empty() && !read_algorithms(choices).choices.empty())
    session.output.write(runs::kAlgorithmsFile, choices);
  session.saves.save(step, tensors, state, best);
  if (best) session.state.best_checkpoint = runs::CheckpointStore::name_of(step);
}

// Before anything of the run is computed.
void Trainer::take_choices(const runs::RunDirectory& directory, std::vector<std::string>& notes) {
  const std::string path = directory.algorithms();
  const auto text = files::read_text_if_there(path);
  if (text && !backend_for(device_).adopt_tuning_cache(*text))
    notes.push_back(fmt::format("{} is of another device or library: algorithms are timed anew", path));
}

// An epoch that was trained but not evaluated is evaluated first when the run goes on. Passes on what the
// evaluation failed in.
void Trainer::interrupt(Session& session) {
  session.result.status = TrainStatus::interrupted;
  try {
    session.saves.conclude(session.state);
    if (ranks_.any(!session.saves.saved(learners_->iterations()))) save_unevaluated(session);
    if (session.evaluation_error) session.saves.conclude(session.state);
  } catch (const std::exception& error) {
    if (!session.evaluation_error) throw;
    session.output.log().error(error.what());  // the first error is the one to tell
  }
  if (session.evaluation_error) std::rethrow_exception(session.evaluation_error);
}

}  // namespace tandem::train
