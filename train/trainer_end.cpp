// The end of a run: its outcome and its last event.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/weights.h"
#include "tasks/record.h"
#include "train/trainer_session.h"

namespace tandem::train {

// Sets failures of a run that reached its end.
void Trainer::check_outcome(Session& session) {
  TrainResult& result = session.result;
  if (!result.failure.empty()) return;
  if (!session.saves.error().empty()) {
    result.failure = fmt::format("the last checkpoint could not be saved: {}", session.saves.error());
  } else if (result.status == TrainStatus::completed && session.artifact_error) {
    result.failure =
        fmt::format("the files of the last evaluation could not be written: {}", *session.artifact_error);
  }
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    const optim::StepReport report = (*learners_)[phase].step->synchronize();
    if (result.failure.empty() && result.status == TrainStatus::completed && report.attempted > 0 &&
        report.applied == 0)
      result.failure =
          fmt::format("all {} steps{} were skipped, the last at a loss scale of {}: nothing was learned",
                      report.attempted, learners_->phase_suffix(phase), report.loss_scale);
  }
  if (!result.failure.empty()) {
    result.status = TrainStatus::failed;
  } else if (result.status == TrainStatus::completed && session.diverged) {
    result.status = TrainStatus::diverged;
    result.failure = *session.diverged;
  }
}

// Reason to reject the result although no step ended the run. A scale that is too high skips steps as well; a
// moving scale fails by its bounds, so only fixed scales are checked.
std::optional<std::string> Trainer::divergence(const Session& session) {
  constexpr const char* kAdvice =
      ": training has diverged; try a lower optimizer.lr, schedule.warmup_steps or clip_norm";
  if (const auto found = models::non_finite_weights(task_->model())) return *found + kAdvice;
  constexpr double kGreatest = 0x1p64;  // its square overflows f32
  if (const auto loss = figure(session.result.metrics, "loss");
      loss && std::isfinite(*loss) && *loss >= kGreatest)
    return fmt::format("the loss of the last evaluation is {:.3g}{}", *loss, kAdvice);
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    optim::Step& step = *(*learners_)[phase].step;
    const optim::StepReport report = step.synchronize();
    if (step.scaler().options().moves() || report.skipped <= report.applied) continue;
    return fmt::format("{} of {} steps{} were skipped because their gradients were not finite{}{}",
                       report.skipped, report.attempted, learners_->phase_suffix(phase), kAdvice,
                       report.loss_scale > 1.0 ? ", or a lower static scale" : "");
  }
  return {};
}

// A run whose metrics could not all be written has failed, although it has ended and is saved.
void Trainer::check_metrics_written(Session& session) {
  TrainResult& result = session.result;
  const auto fatal_error =
      session.output.fatal_error() ? session.output.fatal_error() : session.output.metrics().metrics_error();
  if (!fatal_error || !result.failure.empty()) return;
  result.status = TrainStatus::failed;
  result.failure = *fatal_error;
  session.output.log().error(result.failure);
}

void Trainer::end(Session& session) {
  TrainResult& result = session.result;
  result.steps = learners_->iterations();
  result.best = session.state.best;
  result.chosen_on = task_->validation_split();
  result.best_epoch = session.state.best_epoch;
  result.wall_s = since(session.started);
  report_skipped(session);
  if (skipped_.count() > 0) session.output.warn(tasks::text_of_skipped(skipped_.count()));
  runs::EndEvent event{.status = name_of(result.status), .steps = result.steps};
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    const optim::StepReport report = (*learners_)[phase].step->synchronize();
    if (report.skipped > 0)
      session.output.say(fmt::format("{} of {} steps{} were skipped because their gradients were not finite",
                                     report.skipped, report.attempted, learners_->phase_suffix(phase)));
    event.applied = phase == 0 ? report.applied : std::min(event.applied, report.applied);
    event.skipped += report.skipped;
  }
  event.wall_s = result.wall_s;
  event.peak_memory_bytes = backend_for(device_).memory().peak;
  event.metrics = result.metrics;
  session.output.metrics().write(event);
  if (session.output.progress()) session.output.progress()->finish();
}

// Broadcasts status and failure of the first rank, which alone writes files.
void Trainer::share_outcome(Session& session) {
  if (!ranks_.several()) return;
  TrainResult& result = session.result;
  tasks::RecordWriter writer;
  writer.put(result.status).put_text(result.failure);
  const auto record = ranks_.from_first(std::move(writer).record());
  tasks::RecordReader reader(record);
  result.status = reader.take<TrainStatus>();
  result.failure = reader.take_text();
}

}  // namespace tandem::train
