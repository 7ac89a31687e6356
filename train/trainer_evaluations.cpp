// Evaluations of a run: metrics, choice of the best epoch, artifacts.
#include <cmath>
#include <limits>
#include <utility>

#include "files/json_text.h"
#include "parallel/agreement.h"
#include "runs/weights.h"
#include "train/epoch_line.h"
#include "train/evaluate.h"
#include "train/trainer_session.h"

namespace tandem::train {

namespace {

std::vector<optim::Step*> steps_of(Learners& learners) {
  std::vector<optim::Step*> steps;
  for (const Learner& learner : learners) steps.push_back(learner.step.get());
  return steps;
}

// "divided by 4", "times 0.3"
std::string lowered_by(double factor) {
  const double whole = std::round(1.0 / factor);
  const bool divides = std::abs(whole * factor - 1.0) < 1e-9;
  return divides ? fmt::format("divided by {:g}", whole) : fmt::format("times {:g}", factor);
}

}  // namespace

// Returns false if the evaluation is incomplete: a stop was requested, it failed, or its files could not be
// written. If the epoch has a checkpoint, weights are saved before the evaluation. If it has one only as the
// best epoch, they are saved right after the metrics, before artifacts.
bool Trainer::evaluate_and_save(Session& session, bool whole, bool last) {
  bool best = false;
  const std::int64_t step = learners_->iterations(), epoch = session.state.epoch;
  const bool saves = session.saves.due(step) || due_after(epoch, config_.checkpoint.every_epochs, last);
  std::optional<Evaluated> evaluated;
  // Evaluations and checkpoints use the averages, if there are any.
  AveragedWeights averaged(*learners_);
  if (due_after(epoch, config_.eval.every_epochs, last)) {
    write_distributions(session);
    if (session.stops) return false;
    if (saves) save_before_evaluation(session, averaged);
    try {
      evaluated = evaluate_now(session, *validation_, last && task_->keeps_details());
    } catch (const std::exception& error) {
      // A rank that fails alone cannot save with the others.
      if (ranks_.several() && !dynamic_cast<const parallel::AgreedError*>(&error)) throw;
      session.evaluation_error = std::current_exception();
    }
    if (!evaluated) return false;
    best = take_figure(session, whole);
  }
  if (session.stops) return false;
  const bool anew = ranks_.any(!session.saves.holds(step));
  if (evaluated && !anew) {
    write_artifacts(session, *evaluated);
    // A resumed run evaluates again and writes the missing files.
    if (ranks_.any(session.output.fatal_error().has_value())) return false;
  }
  if (best || saves) {
    session.saves.conclude(session.state);
    if (anew) take_weights(session, averaged);
    runs::RunState next = session.state;
    if (whole) begin_next_epoch(next);
    save(session, next, best, anew);
  }
  if (evaluated && anew) write_artifacts(session, *evaluated);
  return true;
}

// Uses the metric of the last evaluation: returns whether it is the best one and, after a whole epoch,
// updates learning rate and averages.
bool Trainer::take_figure(Session& session, bool whole) {
  runs::RunState& state = session.state;
  const std::string key = config_.best(), split = task_->validation_split();
  const double value = figure(session.result.metrics, key).value_or(std::numeric_limits<double>::quiet_NaN());
  // Only the first rank knows the best metric, since a failed save does not count.
  const bool best = ranks_.any(ranks_.first() && session.figures.is_best(state, value));
  if (best) session.saves.set_best(state, value);
  if (!whole) return best;
  if (session.figures.lowers_rate(state, value)) {
    set_rate_factor(state);
    const std::string since = state.plateau.best_epoch > 0
                                  ? fmt::format("since epoch {}", state.plateau.best_epoch)
                                  : "so far because it is not finite";
    session.output.say(fmt::format("learning rate {}: {} {} has not improved {}",
                                   lowered_by(config_.schedule.plateau->factor), split, key, since));
  }
  if (session.figures.begins_averages(state, value)) {
    learners_->begin_averages();
    session.saves.expire();
    session.output.say(
        fmt::format("the mean of the weights is evaluated and saved from here on: {} {} is worse than the "
                    "best of all but the last {} evaluations",
                    split, key, config_.asgd->patience));
  }
  return best;
}

void Trainer::set_rate_factor(const runs::RunState& state) {
  if (const auto& plateau = config_.schedule.plateau)
    learners_->set_rate_factor({.factor = state.plateau.factor, .least = plateau->min_lr});
}

// Uses gradients of the last steps, which are still in the buffers; an evaluation right after a resume has
// none.
void Trainer::write_distributions(Session& session) {
  if (ranks_.update_parts() > 1) learners_->gather_gradients();
  session.output.metrics().write_tensors(steps_of(*learners_), learners_->iterations(), session.state.epoch);
}

// Text with the mean losses of the epoch so far; "" if none of it was trained.
std::string Trainer::training_losses(const Session& session) const {
  const runs::RunState& state = session.state;
  if (state.epoch_samples == 0.0) return "";
  std::vector<double> means = state.epoch_losses;
  for (double& mean : means) mean /= state.epoch_samples;
  return "training loss" + learners_->by_phase(means);
}

// A kept artifact has the split and the epoch in its file name; its series has the split.
void Trainer::write_artifact(Session& session, const tasks::Artifact& artifact) {
  std::filesystem::path file = artifact.file, series = artifact.file;
  const std::string stem = file.stem().string(), extension = file.extension().string();
  if (artifact.kept) {
    const std::string& split = session.result.split;
    file.replace_filename(fmt::format("{}-{}-{:04}{}", stem, split, session.state.epoch, extension));
    series.replace_filename(fmt::format("{}-{}{}", stem, split, extension));
  }
  const runs::RunDirectory* const directory = session.output.directory();
  if (!directory) return;
  std::error_code error;  // write() reports it
  std::filesystem::create_directories((directory->path() / file).parent_path(), error);
  if (const auto reason = session.output.write(file, artifact.contents)) {
    session.artifact_error = reason;
  } else if (extension == ".png") {
    session.output.metrics().write_picture(
        {learners_->iterations(), session.state.epoch, series.string(), file.string()}, artifact.contents);
  }
}

// The run is saved already: errors are warnings and do not end it.
void Trainer::write_artifacts(Session& session, const Evaluated& evaluated) {
  session.artifact_error.reset();
  if (!evaluated.evaluation) return;
  const auto make = [&](const auto& work) {
    try {
      work();
    } catch (const std::exception& error) {
      session.artifact_error = error.what();
      session.output.warn(fmt::format("not all files of the evaluation were written: {}", error.what()));
    }
  };
  const tasks::Evaluation& evaluation = *evaluated.evaluation;
  make([&] {
    for (const tasks::Artifact& artifact : evaluation.artifacts()) write_artifact(session, artifact);
  });
  make([&] {
    if (const auto breakdown = evaluation.breakdown())
      write_artifact(session, {.file = tasks::kBreakdownFile,
                               .contents = files::json_text(tasks::to_json(*breakdown)) + "\n"});
  });
}

// Returns nothing if a stop was requested.
std::optional<Evaluated> Trainer::evaluate_now(Session& session, DistributedEvaluation& pass, bool details) {
  const std::string& split = pass.split();
  auto evaluated = pass.run(details, session.stop);
  report_skipped(session);
  if (!evaluated) return {};
  session.result.metrics = evaluated->metrics;
  session.result.epoch = session.state.epoch;
  session.result.split = split;
  session.output.metrics().write(
      runs::EvalEvent{learners_->iterations(), session.state.epoch, split, session.result.metrics});
  session.output.say(epoch_line(
      {.epoch = session.state.epoch,
       .epochs = config_.epochs,
       .losses = training_losses(session),
       .split = split,
       .metrics = session.result.metrics,
       .best = config_.best(),
       .items = task_->samples_are(),
       .items_per_s = session.epoch_seconds > 0.0 ? session.steps.own_samples() / session.epoch_seconds : 0.0,
       .seconds = since(session.started)}));
  return evaluated;
}

// If there is a validation split, evaluates the test split once, with the weights of the best epoch. Returns
// false if a stop was requested.
bool Trainer::test_best(Session& session) {
  session.saves.conclude(session.state);
  // Only the first rank knows the best checkpoint.
  const bool saved = !ranks_.text_of_first([&] { return session.state.best_checkpoint; }).empty();
  if (!saved) {
    if (ranks_.first())
      session.output.warn("no weights of the best epoch could be saved: the test split is not evaluated");
    return true;
  }
  ranks_.together([&] {
    if (const auto* const directory = session.output.directory())
      runs::load_weights(runs::weights_path(*directory, "best"), task_->model());
  });
  if (ranks_.several()) ranks_.take_from_first(task_->model());
  session.state.epoch_samples = 0.0;
  // The evaluation is reported with the epoch of these weights.
  const auto epoch = std::exchange(session.state.epoch, session.state.best_epoch);
  const auto evaluated = evaluate_now(session, *test_, task_->keeps_details());
  if (evaluated) write_artifacts(session, *evaluated);
  session.state.epoch = epoch;
  return evaluated.has_value();
}

}  // namespace tandem::train
