// What becomes of a run's steps: 16-bit ones that overflow, and what is written of each.
#include <cmath>
#include <limits>
#include <utility>

#include "train/trainer_session.h"

namespace tandem::train {

void Trainer::end_step(Session& session, Pending pending) {
  runner_->apply();
  pending.attempted = step_->attempted();
  session.pending.push_back(std::move(pending));
  if (step_->arrived()) settle(session, nullptr);
  read_outcomes(session);
}

// Makes sure of the outcome of the last 16-bit step. `following` is the step after it, of which micro-batches
// have been done: where the last one has to be run again, they are dropped, and done once more.
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

// Before the first update no learning rate is to blame.
std::string Trainer::advice_on_divergence(const Pending& pending, const optim::StepReport& report) const {
  if (report.applied > 0 || pending.attempted > 1)
    return fmt::format(
        ", at a learning rate of {:g}; try a lower optimizer.lr, schedule.warmup_steps or clip_norm",
        report.learning_rate);
  return fmt::format(
      " before any update, so the learning rate is not to blame; look at {}the values of the "
      "data (data.augment, normalise) and at the model",
      config_.init_from ? "the weights of init_from, " : "");
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
      task_->model(), static_cast<int>(pending.batches.size()),
      [&](int i) { return runner_->loss(pending.batches[static_cast<std::size_t>(i)], i, number); },
      report.loss_scale);
  step_->clear();
  if (!overflow) return {};
  session.metrics.write(runs::OverflowEvent{
      report.attempted, report.loss_scale, overflow->op, overflow->tensor, overflow->index,
      overflow->forward ? "forward" : "backward", overflow->caused_by_scale ? "scale" : "intrinsic"});
  session.say(fmt::format("step {} overflowed at loss scale {} and was {}: {}", report.attempted,
                          report.loss_scale, retries() ? "retried" : "skipped", amp::to_string(*overflow)));
  return overflow;
}

// The outcome of a step is read when it has arrived, at most one step late; of one in 16 bits when it is
// settled, since it may be run again until then.
void Trainer::read_outcomes(Session& session) {
  tell_skipped(session);
  while (!session.pending.empty()) {
    const Pending& next = session.pending.front();
    if (in_16_bits() && !next.settled) return;
    if (next.attempted == step_->attempted() && !step_->arrived()) return;
    log_step(session, next, step_->report_of(next.attempted));
    session.pending.pop_front();
  }
}

// Which samples could not be read since the last call.
void Trainer::tell_skipped(Session& session) {
  for (const std::string& reason : skipped_.take()) {
    if (session.progress) session.progress->line(tasks::text_of_skipped(reason));
    session.log.warning(tasks::text_of_skipped(reason));
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
  const std::int64_t before = std::exchange(session.read_step, pending.attempted);
  if (passes_multiple(before, pending.attempted, config_.log_every) || diverged)
    session.metrics.write(runs::StepEvent{pending.attempted, report.applied, session.state.epoch, loss,
                                          report.learning_rate, report.loss_scale, report.skipped,
                                          report.gradient_norm, samples / pending.seconds});
  if (diverged && config_.on_divergence == "stop")
    throw Diverged{
        fmt::format("step {} (epoch {}): the loss is {}{}, or go on regardless with "
                    "on_divergence=continue",
                    pending.attempted, session.state.epoch, loss, advice_on_divergence(pending, report))};
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

}  // namespace tandem::train
