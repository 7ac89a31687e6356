#include "train/step_runner.h"

#include "core/backend.h"
#include "core/random.h"

namespace tandem::train {

namespace {

// Ordinary steps before the first recording: they allocate what lives on, and time algorithms.
constexpr int kWarmUp = 3;
// A recording for each micro-batch costs memory for its launches; longer accumulations gain little.
constexpr int kMostRecordings = 16;

}  // namespace

StepRunner::StepRunner(tasks::Task& task, const amp::Plan& precision, optim::Step& step, PhaseTimer& phases,
                       StepRunnerOptions options)
    : precision_(precision), task_(task), step_(step), phases_(phases), options_(options) {
  const Device device = step.buffers().device();
  const bool possible = backend_for(device).records() && step.options().accumulate <= kMostRecordings;
  require(options_.graphs != GraphUse::on || possible, "",
          "cuda_graph: on needs a CUDA device and accumulate of at most {}; the device is {}, accumulate {}",
          kMostRecordings, to_string(device), step.options().accumulate);
  const bool weighs = task_.by_weight() && step.options().accumulate > 1;
  require(
      options_.graphs != GraphUse::on || !weighs, "",
      "cuda_graph: on cannot be had with loss.batch_weight=class_weights and accumulate > 1: every batch has "
      "a weight of its own; take cuda_graph=auto");
  records_ = possible && !weighs && options_.graphs != GraphUse::off;
  ensure(!records_ || options_.batch_size > 0, "step", "the size of a full micro-batch is not given");
  backwards_.resize(records_ ? static_cast<std::size_t>(step.options().accumulate) : 0);
}

Tensor StepRunner::forward(const datasets::Batch& batch, int micro_batch) {
  const RandomScope random(options_.seed, 0, static_cast<std::uint32_t>(micro_batch),
                           step_.random_counter(options_.number_by_applied));
  const amp::Autocast autocast(precision_);
  phases_.begin(Phase::forward);
  const Tensor loss = task_.loss(batch, {.ready = [&] {
    phases_.finish(Phase::forward);
    phases_.begin(Phase::loss);
  }});
  phases_.finish(Phase::loss);
  return loss;
}

Tensor StepRunner::loss(const datasets::Batch& batch, int micro_batch, std::uint32_t step) {
  const RandomScope random(options_.seed, step, static_cast<std::uint32_t>(micro_batch));
  const amp::Autocast autocast(precision_);
  return task_.loss(batch);
}

// What the batch counts among those of its step. The one batch of a step counts what it likes.
double StepRunner::samples_of(const datasets::Batch& batch) const {
  const bool by_weight = task_.by_weight() && step_.options().accumulate > 1;
  return by_weight ? batch.weight : static_cast<double>(batch.samples);
}

bool StepRunner::may_record(const datasets::Batch& batch) const {
  if (!records_ || warm_steps_ < kWarmUp || batch.samples != options_.batch_size) return false;
  return inputs_.empty() || inputs_.like(batch);
}

// Puts the batch where recordings read it.
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

// Nothing is recorded from now on, where that is allowed.
void StepRunner::stop_recording(const VendorError& error) {
  if (options_.graphs == GraphUse::on) throw;
  records_ = false;
  backwards_.clear();
  apply_.reset();
  inputs_ = {};
  why_not_ = error.what();
}

// Records the micro-batch that is due, and does it. False where that failed and it is to be done the usual
// way; what the step did before stays.
bool StepRunner::record(const datasets::Batch& batch) {
  const int number = step_.micro_batches();
  try {
    set_up_inputs(batch);
    backwards_[static_cast<std::size_t>(number)] =
        step_.record_backward([&] { return forward(inputs_, number); }, samples_of(batch));
    return true;
  } catch (const VendorError& error) {
    stop_recording(error);
    return false;
  }
}

void StepRunner::backward(const datasets::Batch& batch) {
  phases_.start();
  const auto number = static_cast<std::size_t>(step_.micro_batches());
  bool done = false;
  if (may_record(batch)) {
    if (backwards_[number]) {
      set_up_inputs(batch);
      phases_.begin(Phase::backward);
      step_.backward(*backwards_[number]);
      done = true;
    } else {
      done = record(batch);
    }
  }
  if (!done) {
    const Tensor loss = forward(batch, static_cast<int>(number));
    phases_.begin(Phase::backward);
    step_.backward(loss, samples_of(batch));
  }
  phases_.finish(Phase::backward);
}

// As `record`, of the end of a step.
bool StepRunner::record_apply() {
  if (!records_ || apply_ || !backwards_.back() || !step_.ready()) return false;
  try {
    apply_ = step_.record_apply();
    return true;
  } catch (const VendorError& error) {
    stop_recording(error);
    return false;
  }
}

void StepRunner::apply() {
  phases_.begin(Phase::update);
  if (apply_ && step_.fits(*apply_)) {
    step_.apply(*apply_);
  } else if (!record_apply()) {
    step_.apply();
    ++warm_steps_;
  }
  phases_.finish(Phase::update);
}

}  // namespace tandem::train
