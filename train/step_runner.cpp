#include "train/step_runner.h"

#include <algorithm>

#include "autograd/ops/elementwise.h"
#include "core/backend.h"
#include "core/random.h"
#include "train/part_weights.h"

namespace tandem::train {

namespace {

// Ordinary steps before the first recording: they allocate persistent memory and time algorithms.
constexpr int kWarmUp = 3;
// Each recording costs memory for its launches; longer accumulations gain little from recordings.
constexpr int kMostRecordings = 16;

bool like(const tasks::CarriedState& a, const tasks::CarriedState& b) {
  return std::ranges::equal(a.fields(), b.fields(), [](const auto& x, const auto& y) {
    return x.name == y.name && x.value.shape() == y.value.shape() && x.value.dtype() == y.value.dtype();
  });
}

// A copy in separate memory.
tasks::CarriedState copy_of(const tasks::CarriedState& carry) {
  tasks::CarriedState copy;
  for (const auto& field : carry.fields()) copy.set(field.name, field.value.clone(MemoryKind::data));
  return copy;
}

void copy_values(const tasks::CarriedState& from, const tasks::CarriedState& to) {
  for (std::size_t i = 0; i < from.fields().size(); ++i) {
    const Tensor& value = from.fields()[i].value;
    backend_for(value.device()).copy_bytes(value, to.fields()[i].value);
  }
}

}  // namespace

Tensor loss_of_phase(tasks::Task& task, std::size_t phase, const datasets::Batch& batch,
                     const RandomNumbers& random, tasks::CarriedState* carry,
                     const tasks::OutputsReady& ready) {
  const int losses = task.phases().at(phase).losses;
  Tensor sum;
  for (int i = 0; i < losses; ++i) {
    const RandomScope scope(random.seed, random.step, random.micro_batch, random.counter);
    const Tensor loss = task.loss(batch, {.phase = phase, .loss = i, .carry = carry, .ready = ready});
    sum = i == 0 ? loss : add(sum, loss);
  }
  return sum;
}

StepRunner::StepRunner(tasks::Task& task, std::size_t phase, Learner& learner,
                       const amp::ResolvedPrecision& precision, StageTimer& stages, StepRunnerOptions options)
    : task_(task),
      phase_(phase),
      learner_(learner),
      step_(*learner.step),
      precision_(precision),
      stages_(stages),
      options_(options) {
  const Device device = step_.buffers().device();
  const int backwards = step_.options().accumulate * passes();
  const bool possible = backend_for(device).records() && backwards <= kMostRecordings;
  require(options_.graphs != GraphUse::on || possible, "",
          "cuda_graph: on needs a CUDA device and accumulate of at most {}; the device is {}, accumulate {}",
          kMostRecordings / passes(), to_string(device), step_.options().accumulate);
  records_ = possible && options_.graphs != GraphUse::off;
  ensure(!records_ || options_.batch_size > 0, "step", "the size of a full micro-batch is not given");
  recorded_.resize(records_ ? static_cast<std::size_t>(backwards) : 0);
}

// The loss of a pass, or the sum of all losses.
Tensor StepRunner::forward(const datasets::Batch& batch, tasks::CarriedState& carry, int micro_batch,
                           int pass) {
  const RandomNumbers random{options_.seed, 0, draw_number(micro_batch),
                             step_.random_counter(options_.number_by_applied)};
  const amp::Autocast autocast(precision_, phase_);
  const amp::BorderScope borders(borders_);
  const BatchNormPeersScope together(options_.peers);
  const tasks::OutputsReady ready = [&] {
    stages_.finish(Stage::forward);
    stages_.begin(Stage::loss);
  };
  stages_.begin(Stage::forward);
  Tensor loss;
  if (learner_.separate_losses) {
    const RandomScope scope(random.seed, random.step, random.micro_batch, random.counter);
    loss = task_.loss(batch, {.phase = phase_, .loss = pass, .carry = &carry, .ready = ready});
  } else {
    loss = loss_of_phase(task_, phase_, batch, random, &carry, ready);
  }
  autocast.finish();
  borders.finish(loss);
  stages_.finish(Stage::loss);
  return loss;
}

Tensor StepRunner::loss_again(const datasets::Batch& batch, tasks::CarriedState carry, int call,
                              const optim::StepReport& skipped) {
  // The value of Step::random_counter() in that step.
  const auto step =
      static_cast<std::uint32_t>(options_.number_by_applied ? skipped.applied : skipped.attempted - 1);
  const amp::Autocast autocast(precision_, phase_);
  const amp::BorderScope borders(borders_);
  const BatchNormPeersScope apart(options_.peers ? &alone_ : nullptr);
  Tensor loss = loss_of_phase(task_, phase_, batch, {options_.seed, step, draw_number(call)}, &carry);
  autocast.finish();
  borders.finish(loss);
  return loss;
}

// Number from which a backward of the step draws random numbers. Each shard has its own, independent of the
// rank that computes it.
std::uint32_t StepRunner::draw_number(int call) const {
  const optim::ShardExchange* const shards = step_.options().shards;
  if (!shards) return static_cast<std::uint32_t>(call);
  const int batch = call / shards->own(), own = call % shards->own();
  return static_cast<std::uint32_t>(batch * shards->shards() + shards->first() + own);
}

// With a single part, the weight cancels.
optim::PartWeight StepRunner::weight_of(const datasets::Batch& batch) const {
  const bool several = step_.options().accumulate > 1 || step_.options().shards;
  return several ? part_weight(task_, batch) : static_cast<double>(batch.samples);
}

void StepRunner::count_factor(const datasets::Batch& batch, double counts) {
  if (step_.micro_batches() == 0) factors_ = counted_ = 0.0;  // also after a dropped step
  factors_ += counts * batch.rate_factor;
  counted_ += counts;
}

// Exactly 1 if all factors are 1.
double StepRunner::rate_factor() const { return factors_ == counted_ ? 1.0 : factors_ / counted_; }

bool StepRunner::may_record(const datasets::Batch& batch) const {
  if (!records_ || warm_steps_ < kWarmUp || batch.samples != options_.batch_size) return false;
  return inputs_.empty() || inputs_.like(batch);
}

// Copies the batch into the input of recordings. Host twins are left out: a recording would repeat values
// that the host read from one batch for all batches.
void StepRunner::set_up_inputs(const datasets::Batch& batch) {
  if (inputs_.empty()) {
    inputs_ = batch;
    for (const datasets::Field& field : batch.fields())
      inputs_.set(field.name, field.value.clone(MemoryKind::data));
    return;
  }
  for (std::size_t i = 0; i < batch.fields().size(); ++i) {
    const Tensor& now = batch.fields()[i].value;
    backend_for(now.device()).copy_bytes(now, inputs_.fields()[i].value);
  }
}

// Stops recording; rethrows if graphs are required.
void StepRunner::stop_recording(const VendorError& error) {
  if (options_.graphs == GraphUse::on) throw;
  records_ = false;
  recorded_.clear();
  apply_.reset();
  inputs_ = {};
  why_not_ = error.what();
}

// Records the current pass and runs it. Returns false if recording failed and the pass has to run as usual;
// earlier passes of the step stay.
bool StepRunner::record(const datasets::Batch& batch, optim::PartWeight weight, tasks::CarriedState& carry,
                        int micro_batch, int pass) {
  try {
    set_up_inputs(batch);
    RecordedPass made;
    made.weight = weight;
    made.before = copy_of(carry);
    made.backward = step_.record_backward(
        [&] {
          made.after = made.before;
          return forward(inputs_, made.after, micro_batch, pass);
        },
        weight, learner_.first_loss + pass);
    carry = copy_of(made.after);
    // The first batch of a stream has no carried state; do not keep its recording.
    if (made.before.empty() && !made.after.empty()) return true;
    recorded_[static_cast<std::size_t>(step_.micro_batches() - 1)] = std::move(made);
    return true;
  } catch (const VendorError& error) {
    stop_recording(error);
    return false;
  }
}

void StepRunner::backward_pass(const datasets::Batch& batch, optim::PartWeight weight,
                               tasks::CarriedState& carry, int micro_batch, int pass) {
  if (may_record(batch)) {
    const RecordedPass& recorded = recorded_[static_cast<std::size_t>(step_.micro_batches())];
    if (!recorded.backward) {
      if (record(batch, weight, carry, micro_batch, pass)) return;
    } else if (recorded.weight == weight && like(recorded.before, carry)) {
      set_up_inputs(batch);
      copy_values(carry, recorded.before);
      stages_.begin(Stage::backward);
      step_.backward(*recorded.backward);
      carry = copy_of(recorded.after);
      return;
    }
  }
  const Tensor loss = forward(batch, carry, micro_batch, pass);
  stages_.begin(Stage::backward);
  step_.backward(loss, weight, learner_.first_loss + pass);
}

void StepRunner::backward(const datasets::Batch& batch, tasks::CarriedState& carry,
                          std::optional<double> counts) {
  stages_.start();
  count_factor(batch, counts.value_or(static_cast<double>(batch.samples)));
  const bool empty = batch.samples == 0 && step_.options().shards;
  parallel::RankPeers* const peers = options_.peers;
  if (peers) peers->begin(!empty);
  step_.enter_shard(!peers || !peers->uneven());
  if (empty) {
    if (peers) peers->follow();
    return step_.pass();
  }
  backward_passes(batch, carry);
  if (peers) peers->end();
}

void StepRunner::backward_passes(const datasets::Batch& batch, tasks::CarriedState& carry) {
  const int micro_batch = step_.micro_batches() / passes();
  const tasks::CarriedState before = carry;
  const optim::PartWeight weight = weight_of(batch);
  for (int pass = 0; pass < passes(); ++pass) {
    carry = before;
    backward_pass(batch, weight, carry, micro_batch, pass);
    stages_.finish(Stage::backward);
  }
}

// As `record`, for the end of a step.
bool StepRunner::record_apply() {
  const bool whole = step_.micro_batches() == step_.options().accumulate * passes();
  if (!records_ || apply_ || !recorded_.back().backward || !whole || !step_.ends_alike()) return false;
  try {
    apply_ = step_.record_apply();
    return true;
  } catch (const VendorError& error) {
    stop_recording(error);
    return false;
  }
}

void StepRunner::apply() {
  stages_.begin(Stage::update);
  if (const double factor = rate_factor(); factor != 1.0) {
    step_.apply(factor);
  } else if (apply_ && step_.fits(*apply_)) {
    step_.apply(*apply_);
  } else if (!record_apply()) {
    step_.apply();
    ++warm_steps_;
  }
  stages_.finish(Stage::update);
}

}  // namespace tandem::train
