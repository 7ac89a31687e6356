#include "train/step_log.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <utility>

#include "tasks/record.h"

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

// The overflow of the first rank that found one, with the rank's number.
std::optional<amp::Overflow> first_of_ranks(ProcessGroup& ranks, const std::optional<amp::Overflow>& own) {
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

StepLog::StepLog(const Run& run)
    : run_(run), iterations_(run.learners.size(), run.learners.iterations()), losses_(run.learners.size()) {}

// Before the first update, the learning rate cannot be the cause.
std::string StepLog::advice_on_divergence(const InFlightStep& step, const optim::StepReport& report) const {
  if (report.applied > 0 || step.attempted > 1)
    return fmt::format(
        ", at a learning rate of {:g}; try a lower optimizer.lr, schedule.warmup_steps or clip_norm",
        report.learning_rate);
  return fmt::format(
      " before any update, so the learning rate is not the cause; check {}the values of the data "
      "(data.augment, normalise) and the model",
      run_.config.init_from ? "the weights of init_from, " : "");
}

void StepLog::give_up(const InFlightStep& step, const optim::StepReport& report,
                      const std::optional<amp::Overflow>& cause) {
  const std::string why =
      report.exhausted
          ? fmt::format(
                "the step overflowed at a loss scale of {}, the lowest there is (precision.scaler.floor)",
                report.loss_scale)
          : fmt::format(
                "{} steps in a row were skipped (precision.max_skips), the last at a loss scale of {}",
                report.consecutive_skips, report.loss_scale);
  const bool moves = run_.learners[step.phase].step->scaler().options().moves();
  const bool lower_scale = cause && cause->caused_by_scale && !moves;
  throw Diverged{
      fmt::format("step {}{}: {}; {}{}", step.iteration, run_.learners.phase_suffix(step.phase), why,
                  cause ? amp::to_string(*cause) : "a replay of the step found no op that overflows",
                  lower_scale ? "; use a lower static scale, or \"scaler\": \"dynamic\""
                              : "; try a lower optimizer.lr, schedule.warmup_steps or clip_norm")};
}

std::optional<amp::Overflow> StepLog::diagnose(const InFlightStep& step, const optim::StepReport& report) {
  ++run_.state.diagnosed;
  const auto overflow = first_of_ranks(run_.ranks, run_.runners.find_overflow(step, report));
  if (!overflow) return {};
  run_.output.metrics().write(runs::OverflowEvent{
      step.iteration, report.loss_scale, overflow->op, overflow->tensor, overflow->index,
      overflow->forward ? "forward" : "backward", overflow->caused_by_scale ? "scale" : "intrinsic",
      run_.learners.name_of(step.phase)});
  run_.output.say(fmt::format("step {}{} overflowed at loss scale {} and was {}: {}", step.iteration,
                              run_.learners.phase_suffix(step.phase), report.loss_scale,
                              run_.config.precision.on_skip == "retry" ? "retried" : "skipped",
                              amp::to_string(*overflow)));
  return overflow;
}

void StepLog::on_resolved(const InFlightStep& step, const optim::StepReport& report) {
  const config::Config& config = run_.config;
  double loss = report.loss;
  run_.state.epoch_losses[step.phase] += loss * step.samples;
  if (step.phase == 0) {
    run_.state.epoch_samples += step.samples;
    own_samples_ += step.samples;
  }
  const bool diverged = !std::isfinite(loss);
  if (std::isnan(loss)) loss = std::numeric_limits<double>::quiet_NaN();  // printed without a sign
  const std::int64_t before = std::exchange(iterations_[step.phase], step.iteration);
  if (passes_multiple(before, step.iteration, config.log_every) || diverged)
    run_.output.metrics().write(runs::StepEvent{.step = step.iteration,
                                                .applied = report.applied,
                                                .epoch = run_.state.epoch,
                                                .loss = loss,
                                                .lr = report.learning_rate,
                                                .loss_scale = report.loss_scale,
                                                .skipped = report.skipped,
                                                .grad_norm = report.gradient_norm,
                                                .items_per_s = step.samples / step.seconds,
                                                .phase = run_.learners.name_of(step.phase)});
  if (diverged && config.on_divergence == "stop")
    throw Diverged{fmt::format(
        "step {}{} (epoch {}): the loss is {}{}, or set on_divergence=continue to ignore it", step.iteration,
        run_.learners.phase_suffix(step.phase), run_.state.epoch, loss, advice_on_divergence(step, report))};
  if (config.precision.is_fp32() && report.consecutive_skips >= config.precision.max_skips)
    throw Diverged{fmt::format(
        "step {}{}: {} steps in a row were skipped (precision.max_skips): their gradients are not "
        "finite; try a lower optimizer.lr, schedule.warmup_steps or clip_norm",
        step.iteration, run_.learners.phase_suffix(step.phase), report.consecutive_skips)};
  if (const auto& error = run_.ranks.wire_error(); error && !std::exchange(wire_error_logged_, true))
    run_.output.say(
        fmt::format("gradients are sent in {}: the error of their sum is {:.2g} % of its norm in this step",
                    config.parallel.wire, 100.0 * error->difference / error->norm));
  losses_[step.phase] = loss;
  if (step.phase + 1 == run_.learners.size()) show_progress(step, report.learning_rate);
}

void StepLog::begin_epoch(std::int64_t steps, std::int64_t done) {
  own_samples_ = 0.0;
  steps_ = steps;
  before_epoch_ = run_.learners.iterations() - done;
}

void StepLog::show_progress(const InFlightStep& step, double lr) {
  step_seconds_ = step_seconds_ == 0.0 ? step.seconds : 0.9 * step_seconds_ + 0.1 * step.seconds;
  if (!run_.output.progress()) return;
  run_.output.progress()->update({.epoch = run_.state.epoch,
                                  .epochs = run_.config.epochs,
                                  .step = step.iteration - before_epoch_,
                                  .steps = steps_,
                                  .total_step = step.iteration,
                                  .total_steps = run_.steps_per_epoch * run_.config.epochs,
                                  .losses = "loss" + run_.learners.by_phase(losses_),
                                  .lr = lr,
                                  .items = run_.task.samples_are(),
                                  .items_per_s = step.samples / step_seconds_});
}

}  // namespace tandem::train
