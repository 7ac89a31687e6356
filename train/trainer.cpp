#include "train/trainer.h"

#include <fmt/core.h>

#include <utility>

#include "autograd/node.h"
#include "autograd/observers.h"
#include "core/error.h"
#include "core/guard.h"
#include "files/write.h"
#include "parallel/abort_message.h"
#include "parallel/agreement.h"
#include "train/ranges.h"
#include "train/trainer_session.h"

namespace tandem::train {

namespace {

// Checks the guards of host memory (core/guard.h) after every op of its thread; an overwritten guard is an
// InternalError with the op's name.
class GuardedOps final : public OpObserver {
 public:
  void after_forward(const OpInfo& op, std::span<const Tensor>, std::span<const Tensor>) override {
    guard::check(op.name);
  }
  void after_backward(const Node& node, std::span<const Tensor>) override {
    guard::check(fmt::format("{} backward", node.info().name));
  }

 private:
  const ObserverScope observed_{*this};
};

}  // namespace

const char* name_of(TrainStatus status) {
  constexpr const char* names[] = {"completed", "interrupted", "failed", "diverged"};
  return names[static_cast<int>(status)];
}

Trainer::Session::Session(Trainer& trainer, const runs::RunDirectory* directory, const StopRequest& stop_,
                          Resumed resumed)
    : stop(stop_),
      output(directory, trainer.config_,
             trainer.ranks_.first()
                 ? ""
                 : parallel::words_of_rank(trainer.ranks_.rank(), trainer.ranks_.size(), "")),
      saves(output, trainer.config_, *trainer.task_->data(), trainer.learners_->iterations(),
            resumed.converting),
      figures{.greater_is_better =
                  tasks::kind_of(config::metrics(trainer.config_), trainer.config_.best()).greater_is_better,
              .plateau = trainer.config_.schedule.plateau,
              .averaging = trainer.config_.asgd},
      state(std::move(resumed.run)),
      steps({.config = trainer.config_,
             .task = *trainer.task_,
             .learners = *trainer.learners_,
             .runners = *trainer.runners_,
             .ranks = trainer.ranks_,
             .output = output,
             .state = state,
             .steps_per_epoch = trainer.steps_per_epoch()}),
      pipeline(*trainer.runners_, steps,
               {.resolves = !trainer.config_.precision.is_fp32(),
                .retries = trainer.config_.precision.on_skip == "retry",
                .max_skips = trainer.config_.precision.max_skips},
               std::move(resumed.carries)) {
  if (!resumed.found()) state.epoch_losses.assign(trainer.learners_->size(), 0.0);
  state.training_samples = trainer.task_->data()->training_samples();
}

std::int64_t Trainer::steps_per_epoch() const {
  const std::int64_t batches = train_loader_->batches_per_epoch() / ranks_.own();
  return (batches + config_.accumulate - 1) / config_.accumulate;
}

bool Trainer::limit_reached() const {
  return options_.limit_steps && learners_->iterations() >= *options_.limit_steps;
}

TrainResult Trainer::run(const runs::RunDirectory* directory, const std::string& command_line,
                         const StopRequest& stop) {
  compare_ranks();
  std::optional<runs::RunLock> lock;
  ranks_.together([&] {
    if (!directory) return;
    lock.emplace(*directory);
    files::remove_abandoned(directory->path());
  });
  std::vector<std::string> notes = notes_, warnings;
  Resumed resumed;
  if (options_.resume) resumed = resume(directory, notes, warnings);
  resumed.carries.resize(learners_->size(),
                         std::vector<tasks::CarriedState>(static_cast<std::size_t>(ranks_.own())));
  Session session(*this, directory, stop, std::move(resumed));
  const auto ranges = profile::ranges_if_asked(device_);
  if (ranges) ranges->watch(stages_);
  std::optional<GuardedOps> guarded;
  if (guard::on()) {
    guarded.emplace();
    notes.push_back(
        "guards are on (TANDEM_GUARD): the memory around every kernel is checked, which slows training down");
  }
  try {
    begin(session, command_line, warnings, notes);
    session.stops = ranks_.any(session.output.fatal_error().has_value());
    if (!session.stops) train(session);
    ranks_.together([&] {
      session.saves.conclude(session.state);
      if (session.output.fatal_error()) throw VendorError("", *session.output.fatal_error());
    });
  } catch (const Diverged& diverged) {
    session.result.status = TrainStatus::diverged;
    session.result.failure = diverged.what;
  } catch (const std::exception& error) {
    if (!dynamic_cast<const parallel::AgreedError*>(&error)) ranks_.abandon_devices();
    session.result.status = TrainStatus::failed;
    session.output.log().error(error.what());
    try {
      end(session);
    } catch (const std::exception& later) {
      session.output.log().error(later.what());  // the first error is rethrown
    }
    throw;
  }
  check_outcome(session);
  if (!session.result.failure.empty()) session.output.log().error(session.result.failure);
  end(session);
  check_metrics_written(session);
  share_outcome(session);
  std::string times;
  for (std::size_t p = 0; p < kStageNames.size(); ++p)
    times += fmt::format("{}{} {:.2f} s", p == 0 ? "" : ", ", kStageNames[p],
                         stages_.seconds(static_cast<Stage>(p)));
  session.output.log().info("time by stage: " + times);
  session.output.log().info(name_of(session.result.status));
  return session.result;
}

void Trainer::train(Session& session) {
  runs::RunState& state = session.state;
  const auto stops = [&] { return ranks_.any(session.stop.asked() || session.output.fatal_error()); };
  while (state.epoch <= config_.epochs && !limit_reached()) {
    const bool whole = train_epoch(session);
    const bool last = !whole || state.epoch == config_.epochs || limit_reached();
    if ((session.stops && !whole) || !evaluate_and_save(session, whole, last)) return interrupt(session);
    if (!whole) break;
    begin_next_epoch(state);
    if (!last && (session.stops = stops())) return interrupt(session);
  }
  bool evaluated = true;
  if (session.result.metrics.empty()) {  // nothing was left to train
    const bool whole = state.epoch > config_.epochs;
    if (whole) state.epoch = config_.epochs;
    evaluated = evaluate_and_save(session, whole, true);
  }
  session.diverged = divergence(session);  // before the best weights replace the last ones
  if (evaluated && test_) evaluated = test_best(session);
  if (evaluated) return;
  // All training is saved: a resumed run starts with the missing evaluation.
  if (session.evaluation_error) std::rethrow_exception(session.evaluation_error);
  session.result.status = TrainStatus::interrupted;
}

// Trains from state.position on. Returns whether the epoch is complete.
bool Trainer::train_epoch(Session& session) {
  const auto started = Clock::now();
  task_->model().train();
  const Index batches = train_loader_->batches_per_epoch() / ranks_.own();
  Index served = train_loader_->batches_served() / ranks_.own();
  session.steps.begin_epoch(steps_per_epoch(), served / config_.accumulate);
  std::vector<MicroBatch> of_iteration;
  const auto asks = [&] { return session.stop.asked() || session.output.fatal_error(); };
  runners_->start_clock();
  stages_.start();
  while (served < batches) {
    for (std::int64_t taken = 0; taken < config_.accumulate && served < batches; ++taken, ++served)
      take_batch(session, of_iteration);
    ranks_.say_in_step(asks());
    end_iteration(session, of_iteration);
    if (session.saves.ended()) session.saves.conclude(session.state);
    session.stops = ranks_.several() ? ranks_.said_in_step() : asks();
    if (session.stops || limit_reached()) break;
    const std::int64_t step = learners_->iterations();
    if (passes_multiple(std::exchange(session.checked_step, step), step, config_.parallel.check_every))
      check_ranks(fmt::format("after step {}:", step));
    if (served < batches && session.saves.due(step)) save_inside_epoch(session);
  }
  finish_steps(session);
  session.epoch_seconds = since(started);
  session.result.train_s += session.epoch_seconds;
  if (served < batches) return false;
  train_loader_->seek({static_cast<std::uint32_t>(session.state.epoch), 0});
  session.pipeline.forget_carries();
  return true;
}

// Computes the next batch, or this rank's shards of it, for the first phase's step, and appends it to
// `batches` for the later phases.
void Trainer::take_batch(Session& session, std::vector<MicroBatch>& batches) {
  const Index before = train_loader_->state().position;
  for (Index shard = 0; shard < ranks_.own(); ++shard) {
    stages_.begin(Stage::data);
    MicroBatch micro_batch{.batch = train_loader_->next().value(), .shard = static_cast<std::size_t>(shard)};
    if (!ranks_.divided()) {
      micro_batch.samples = static_cast<double>(micro_batch.batch.samples);
    } else if (shard + 1 == ranks_.own()) {
      micro_batch.samples = static_cast<double>(train_loader_->state().position - before);
    }
    stages_.finish(Stage::data);
    if (learners_->size() > 1) batches.push_back(micro_batch);
    session.pipeline.add(0, std::move(micro_batch));
  }
}

// Ends the first phase's step, then computes those of the other phases on the same batches.
void Trainer::end_iteration(Session& session, std::vector<MicroBatch>& batches) {
  report_skipped(session);
  for (std::size_t phase = 0; phase < learners_->size(); ++phase) {
    if (phase > 0)
      for (const MicroBatch& each : batches) session.pipeline.add(phase, each);
    session.pipeline.end_step();
  }
  batches.clear();
}

// Waits for the outcome of every step, checks for out-of-bounds writes and stores the position in the epoch.
void Trainer::finish_steps(Session& session) {
  report_skipped(session);
  session.pipeline.drain();
  guard::check("memory");
  session.state.position = train_loader_->state().position;
}

// Reports unreadable samples since the last call.
void Trainer::report_skipped(Session& session) {
  for (const std::string& reason : skipped_.take())
    session.output.report_skipped(tasks::text_of_skipped(reason));
}

}  // namespace tandem::train
