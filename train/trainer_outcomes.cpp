// What becomes of a run's steps: 16-bit ones that overflow, and what is written of each.
#include <cmath>
#include <limits>
#include <utility>

#include "tasks/record.h"
#include "train/trainer_session.h"

namespace tandem::train {

namespace {

tasks::Record to_record(const std::optional<amp::Overflow>& overflow) {
  tasks::RecordWriter writer;
  writer.put(overflow.has_value());
  if (overflow)
    writer.put_text(overflow->op)
        .put_text(overflow->tensor)
        .put(overflow->index)
        .put(overflow->value)
        .put(overflow->forward)
        .put(overflow->caused_by_scale);
  return std::move(writer).record();
}

std::optional<amp::Overflow> overflow_in(std::span<const std::byte> record) {
  tasks::RecordReader reader(record);
  if (!reader.take<bool>()) return {};
  amp::Overflow overflow;
  overflow.op = reader.take_text();
  overflow.tensor = reader.take_text();
  overflow.index = reader.take<Index>();
  overflow.value = reader.take<double>();
  overflow.forward = reader.take<bool>();
  overflow.caused_by_scale = reader.take<bool>();
  reader.end();
  return overflow;
}

// What the first rank that found something has found, told with its number: ranks look at their own shards.
std::optional<amp::Overflow> first_of_ranks(Ranks& ranks, const std::optional<amp::Overflow>& own) {
  if (!ranks.several()) return own;
  const auto records = ranks.communicator().all_gather_bytes(to_record(own), ranks.deadline_s());
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    auto found = overflow_in(records[rank]);
    if (!found) continue;
    found->tensor += fmt::format(", of rank {}", rank);
    return found;
  }
  return {};
}

}  // namespace

// A micro-batch of the step that is due in that phase, with what the one before it left.
void Trainer::run_micro_batch(std::size_t phase, const MicroBatch& micro_batch) {
  tasks::Carry& carry = carries_[phase][micro_batch.shard];
  carry = micro_batch.carry;
  runners_[phase]->backward(micro_batch.batch, carry,
                            ranks_.divided() ? std::optional(micro_batch.samples) : std::nullopt);
}

void Trainer::micro_batch(Session& session, std::size_t phase, MicroBatch micro_batch) {
  micro_batch.carry = carries_[phase][micro_batch.shard];
  run_micro_batch(phase, micro_batch);
  session.ledger.add(phase, micro_batch);
  settle(session);  // after the first one: lets the batches of the step before go
}

// The step of each phase in turn: the first has seen the batches, the others go over them.
void Trainer::end_iteration(Session& session) {
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    if (phase > 0)
      for (const MicroBatch& each : session.batches) micro_batch(session, phase, each);
    end_step(session, phase);
  }
  session.batches.clear();
  session.batches_taken = 0;
}

void Trainer::end_step(Session& session, std::size_t phase) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - session.step_started[phase]).count();
  session.step_started[phase] = now;
  runners_[phase]->apply();
  if (phase + 1 == learners_->size()) learners_->end_iteration();
  optim::Step& step = *(*learners_)[phase].step;
  session.ledger.apply(step.attempted(), learners_->iterations(), seconds);
  if (is_known(step)) settle(session);
  read_outcomes(session);
}

// Ranks read an outcome at the same place: on a device it has arrived on some of them, and not on others.
bool Trainer::is_known(optim::Step& step) const {
  return (device_ == Device{} || !ranks_.several()) && step.arrived();
}

// Makes sure of the outcome of the last 16-bit step, before anything else changes what it began with. The
// step after it, perhaps of another phase, may have begun: where the last one has to be run again, its
// micro-batches are dropped, and done once more.
void Trainer::settle(Session& session) {
  LedgerStep* const last = session.ledger.unsettled();
  if (!last) return;
  const optim::StepReport report = (*learners_)[last->phase].step->synchronize();
  const bool hopeless = report.exhausted || report.consecutive_skips >= config_.precision.max_skips;
  const bool examined = session.state.diagnosed < config_.precision.diagnose;
  if (report.skip && (hopeless || examined || retries())) {
    const LedgerStep* const following = session.ledger.gathering();
    if (following) (*learners_)[following->phase].step->clear();
    read_outcomes(session);  // of those before it, while the step still has their reports
    run_again(session, *last, report);
    if (following)
      for (const MicroBatch& micro_batch : following->micro_batches)
        run_micro_batch(following->phase, micro_batch);
  }
  session.ledger.settle();
}

// Before the first update no learning rate is to blame.
std::string Trainer::advice_on_divergence(const LedgerStep& step, const optim::StepReport& report) const {
  if (report.applied > 0 || step.attempted > 1)
    return fmt::format(
        ", at a learning rate of {:g}; try a lower optimizer.lr, schedule.warmup_steps or clip_norm",
        report.learning_rate);
  return fmt::format(
      " before any update, so the learning rate is not to blame; look at {}the values of the "
      "data (data.augment, normalise) and at the model",
      config_.init_from ? "the weights of init_from, " : "");
}

// A step that overflowed is diagnosed, and retried at the lower scale where the configuration says so.
void Trainer::run_again(Session& session, LedgerStep& step, optim::StepReport report) {
  while (report.skip) {
    const bool hopeless = report.exhausted || report.consecutive_skips >= config_.precision.max_skips;
    std::optional<amp::Overflow> cause;
    if (hopeless || session.state.diagnosed < config_.precision.diagnose) {
      ++session.state.diagnosed;
      cause = diagnose(session, step, report);
    }
    if (hopeless) give_up(step, report, cause);
    // A loss that is not finite is so at any scale; log_step says what that means.
    if (!retries() || !std::isfinite(report.loss)) return;
    learners_->end_iteration();  // where the scale still waits for the phases after this one, it moves now
    for (const MicroBatch& micro_batch : step.micro_batches) run_micro_batch(step.phase, micro_batch);
    runners_[step.phase]->apply();
    if (step.phase + 1 == learners_->size()) learners_->end_iteration();
    optim::Step& again = *(*learners_)[step.phase].step;
    step.attempted = again.attempted();
    step.iteration = learners_->iterations();
    report = again.synchronize();
  }
}

// Ends a run whose steps are skipped without end.
void Trainer::give_up(const LedgerStep& step, const optim::StepReport& report,
                      const std::optional<amp::Overflow>& cause) {
  const std::string why =
      report.exhausted
          ? fmt::format(
                "the step overflowed at a loss scale of {}, the lowest there is (precision.scaler.floor)",
                report.loss_scale)
          : fmt::format(
                "{} steps in a row were skipped (precision.max_skips), the last at a loss scale of {}",
                report.consecutive_skips, report.loss_scale);
  Learner& learner = (*learners_)[step.phase];
  const bool lower_scale = cause && cause->caused_by_scale && !learner.step->scaler().options().moves();
  throw Diverged{
      fmt::format("step {}{}: {}; {}{}", step.iteration, learners_->whose(step.phase), why,
                  cause ? amp::to_string(*cause) : "no op was found to overflow when the step was run again",
                  lower_scale ? "; take a lower static scale, or \"scaler\": \"dynamic\""
                              : "; try a lower optimizer.lr, schedule.warmup_steps or clip_norm")};
}

// Names what overflowed, in the log and to the user.
std::optional<amp::Overflow> Trainer::diagnose(Session& session, const LedgerStep& step,
                                               const optim::StepReport& report) {
  // What the step's random numbers were numbered by: the count before it.
  const auto number = static_cast<std::uint32_t>(retries() ? report.applied : report.attempted - 1);
  std::vector<int> calls;  // those with samples
  for (std::size_t i = 0; i < step.micro_batches.size(); ++i)
    if (step.micro_batches[i].batch.samples > 0) calls.push_back(static_cast<int>(i));
  const auto loss = [&](int i) {
    const int call = calls[static_cast<std::size_t>(i)];
    const MicroBatch& micro_batch = step.micro_batches[static_cast<std::size_t>(call)];
    return runners_[step.phase]->loss(micro_batch.batch, micro_batch.carry, call, number);
  };
  const auto own =
      amp::find_overflow(task_->model(), static_cast<int>(calls.size()), loss, report.loss_scale);
  (*learners_)[step.phase].step->clear();
  const auto overflow = first_of_ranks(ranks_, own);
  if (!overflow) return {};
  session.metrics.write(runs::OverflowEvent{step.iteration, report.loss_scale, overflow->op, overflow->tensor,
                                            overflow->index, overflow->forward ? "forward" : "backward",
                                            overflow->caused_by_scale ? "scale" : "intrinsic",
                                            name_of_phase(step.phase)});
  session.say(fmt::format("step {}{} overflowed at loss scale {} and was {}: {}", step.iteration,
                          learners_->whose(step.phase), report.loss_scale, retries() ? "retried" : "skipped",
                          amp::to_string(*overflow)));
  return overflow;
}

// The outcome of a step is read when it has arrived, at most one step late; of one in 16 bits when it is
// settled, since it may be run again until then.
void Trainer::read_outcomes(Session& session, bool all) {
  tell_skipped(session);
  while (const LedgerStep* const next = session.ledger.readable()) {
    optim::Step& step = *(*learners_)[next->phase].step;
    if (!all && next->attempted == step.attempted() && !is_known(step)) return;
    log_step(session, *next, step.report_of(next->attempted));
    session.ledger.pop();
  }
}

// Which samples could not be read since the last call.
void Trainer::tell_skipped(Session& session) {
  for (const std::string& reason : skipped_.take()) {
    const std::string text = tasks::text_of_skipped(reason);
    if (session.progress) session.progress->line(text);
    if (!ranks_.first()) output::print_error(session.speaker + text);
    session.log.warning(text);
  }
}

void Trainer::log_step(Session& session, const LedgerStep& step, const optim::StepReport& report) {
  double loss = report.loss;
  session.state.epoch_losses[step.phase] += loss * step.samples;
  if (step.phase == 0) {
    session.state.epoch_samples += step.samples;
    session.own_samples += step.samples;
  }
  const bool diverged = !std::isfinite(loss);
  if (std::isnan(loss)) loss = std::numeric_limits<double>::quiet_NaN();  // printed without a sign
  const std::int64_t before = std::exchange(session.read_step[step.phase], step.iteration);
  if (passes_multiple(before, step.iteration, config_.log_every) || diverged)
    session.metrics.write(runs::StepEvent{.step = step.iteration,
                                          .applied = report.applied,
                                          .epoch = session.state.epoch,
                                          .loss = loss,
                                          .lr = report.learning_rate,
                                          .loss_scale = report.loss_scale,
                                          .skipped = report.skipped,
                                          .grad_norm = report.gradient_norm,
                                          .items_per_s = step.samples / step.seconds,
                                          .phase = name_of_phase(step.phase)});
  if (diverged && config_.on_divergence == "stop")
    throw Diverged{
        fmt::format("step {}{} (epoch {}): the loss is {}{}, or go on regardless with "
                    "on_divergence=continue",
                    step.iteration, learners_->whose(step.phase), session.state.epoch, loss,
                    advice_on_divergence(step, report))};
  if (!in_16_bits() && report.consecutive_skips >= config_.precision.max_skips)
    throw Diverged{fmt::format(
        "step {}{}: {} steps in a row were skipped (precision.max_skips): their gradients are not "
        "finite; try a lower optimizer.lr, schedule.warmup_steps or clip_norm",
        step.iteration, learners_->whose(step.phase), report.consecutive_skips)};
  if (const auto& error = ranks_.wire_error(); error && !std::exchange(session.told_of_wire, true))
    session.say(fmt::format("gradients are sent in {}: their sum is off by {:.2g} % of its norm in this step",
                            config_.parallel.wire, 100.0 * error->difference / error->norm));
  session.read_loss[step.phase] = loss;
  if (step.phase + 1 == learners_->size()) show_progress(session, step, report.learning_rate);
}

void Trainer::show_progress(Session& session, const LedgerStep& step, double lr) {
  session.step_seconds =
      session.step_seconds == 0.0 ? step.seconds : 0.9 * session.step_seconds + 0.1 * step.seconds;
  if (!session.progress) return;
  const std::int64_t per_epoch = steps_per_epoch();
  session.progress->update({.epoch = session.state.epoch,
                            .epochs = config_.epochs,
                            .step = (step.iteration - 1) % per_epoch + 1,
                            .steps = per_epoch,
                            .total_step = step.iteration,
                            .total_steps = per_epoch * config_.epochs,
                            .losses = "loss" + by_phase(session.read_loss),
                            .lr = lr,
                            .items = task_->samples_are(),
                            .items_per_s = step.samples / session.step_seconds});
}

}  // namespace tandem::train
