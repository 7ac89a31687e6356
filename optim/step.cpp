#include "optim/step.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/engine.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"

namespace tandem::optim {

namespace {

std::unique_ptr<LossScaler> own_scaler(const StepOptions& options, Device device) {
  if (options.shared_scaler) return nullptr;
  return std::make_unique<LossScaler>(options.scaler, device);
}

std::optional<double> unit_of(const StepOptions& options) {
  if (options.unit || !options.shards) return options.unit;
  return options.shards->usual_samples();
}

StepState initial_state(const LossScaler& scaler) {
  StepState state;
  state.used_scale = static_cast<float>(scaler.options().initial);
  return state;
}

}  // namespace

Step::Step(nn::Module& module, const std::vector<Optimizer*>& optimizers, StepOptions options)
    : options_(std::move(options)),
      module_(module),
      trained_(module, optimizers, options_),
      own_scaler_(own_scaler(options_, buffers().device())),
      scaler_(own_scaler_ ? own_scaler_.get() : options_.shared_scaler),
      micro_batches_(options_.accumulate * (options_.shards ? options_.shards->own() : 1),
                     scaler_->options().losses, unit_of(options_)),
      rates_(trained_.resolve_rates(options_.schedule), buffers().device()),
      mailbox_(buffers().device()) {
  check(options_, *scaler_, buffers().device());
  rules_ = {.skip_non_finite = options_.skip_non_finite && scaler_->options().skips,
            .checked = options_.check_gradients,
            .clip_norm = options_.clip_norm.value_or(std::numeric_limits<double>::infinity())};
  if (scaler_->options().scope == ScalerScope::loss)
    loss_gradients_ = std::make_unique<LossGradients>(buffers(), *scaler_);
  if (options_.shards)
    shards_ = std::make_unique<ShardAccumulator>(*options_.shards, trained_, counters_, options_.accumulate);
  state_ = Tensor::empty({static_cast<Index>(sizeof(StepState))},
                         {.dtype = DType::u8, .device = buffers().device()});
  write_state(initial_state(*scaler_));
  take_over();
}

// Allocations come first and are undone on failure, so the module moves completely or not at all.
void Step::take_over() {
  scale_index_ = scaler_->attach();
  try {
    trained_.attach();
  } catch (...) {
    scaler_->detach();
    throw;
  }
  counters_.watch(module_.counters());
  mailbox_.reset(initial_state(*scaler_), scaler_->device_state(scale_index_));
}

Backend& Step::backend() const { return backend_for(buffers().device()); }

Step::Phase Step::phase() const {
  if (!own_scaler_ && applied_in_ == scaler_->iteration_) return Phase::stepped;
  return unscaled_ ? Phase::unscaled : Phase::ready;
}

Tensor Step::seed_for(const Tensor& loss, double weight, int loss_index) const {
  Tensor seed = loss_scale(loss_index).viewed(loss.shape());
  if (weight != 1.0) {
    seed = seed.clone();
    backend().update().scale_and_limit(seed, weight, std::numeric_limits<double>::infinity());
  }
  if (loss.dtype() == DType::f32) return seed;
  const Tensor wide = Tensor::empty(loss.shape(), loss.options());
  backend().cast(seed, wide);
  return wide;
}

void Step::check_backward(int loss_index) const {
  require(
      phase() != Phase::stepped, "step",
      "backward() after apply(): the iteration ends with LossScaler::update(), which moves the shared scale");
  require(phase() != Phase::unscaled, "step",
          "backward() after unscale() would add scaled gradients to unscaled ones: call unscale() once, "
          "after the last backward of the step");
  micro_batches_.check_room(loss_index);
  require(!trained_.ema() || !trained_.ema()->swapped_in(), "step",
          "the model holds its averages: leave the Ema::Scope before training");
}

// Returns the weight of the micro-batch.
PartWeight Step::begin_micro_batch(PartWeight samples, int loss_index) {
  check_backward(loss_index);
  const PartWeight weight = micro_batches_.weigh(samples);
  if (shards_) shards_->enter(micro_batches_.count());
  if (micro_batches_.count() == 0 || per_loss()) {
    buffers().check_attached();
    for (const FlatBuffers::Slot& slot : buffers().slots())
      require(!slot.parameter.gradient().defined(), "step",
              "parameter {} has a gradient that does not come from Step::backward; use only that, or clear() "
              "first",
              slot.parameter.name());
  }
  return weight;
}

void Step::enqueue_backward(const Tensor& loss, PartWeight weight, int loss_index) {
  require(loss.defined() && loss.numel() == 1 && (loss.dtype() == DType::f32 || loss.dtype() == DType::f64),
          "step", "the loss must be one f32 (or f64) number, got {}; reduce it with sum or mean",
          to_string(loss));
  require(loss.device() == buffers().device(), "step", "the loss is on {}, the parameters on {}",
          to_string(loss.device()), to_string(buffers().device()));
  const Tensor seed = seed_for(loss, weight.divisor, loss_index);
  if (shards_) shards_->expect(micro_batches_.last());
  tandem::backward(std::span(&loss, 1), std::span(&seed, 1));
  backend().update().accumulate_loss(loss, weight.divisor, state_,
                                     scaler_->device_state(scale_index(loss_index)));
  if (per_loss()) loss_gradients_->add(loss_index, state_);
  if (shards_) shards_->count(weight, loss.device() == Device{} ? loss.item() : 0.0, micro_batches_.last());
}

void Step::backward(const Tensor& loss, PartWeight samples, int loss_index) {
  const PartWeight weight = begin_micro_batch(samples, loss_index);
  try {
    enqueue_backward(loss, weight, loss_index);
  } catch (...) {
    clear();
    throw;
  }
  micro_batches_.add(weight, loss_index);
}

void Step::enter_shard(bool overlap) {
  if (!shards_) return;
  shards_->enter(micro_batches_.count());
  shards_->overlap(overlap);
}

void Step::pass() {
  require(shards_ != nullptr, "step", "pass() is only for a batch in shards");
  const PartWeight weight = begin_micro_batch(0.0, 0);
  shards_->pass(micro_batches_.last());
  micro_batches_.add(weight, 0);
}

// With several losses, each leaf receives the sum of their gradients.
void Step::give_back_gradients() {
  if (per_loss() && !unscaled_) loss_gradients_->give_back();
}

// Combines the micro-batches of all shards. This process's own losses are already counted in the state and in
// the scale, which other steps may share.
void Step::join_shards() {
  const bool on_device = buffers().device() != Device{};
  const ShardTotals totals =
      on_device ? shards_->join(state_, scaler_->device_state(scale_index_)) : shards_->join();
  total_weight_ = micro_batches_.total_or_one(totals.weight);
  if (on_device) return;
  auto& state = *static_cast<StepState*>(state_.raw());
  auto& scale = *static_cast<ScaleState*>(scaler_->device_state(scale_index_).raw());
  state.loss_sum = totals.loss_sum;
  state.forward_non_finite = totals.non_finite_losses;
  scale.forward_non_finite += totals.non_finite_losses - shards_->own_non_finite_losses();
}

// Completes the micro-batches of the step: puts the gradients and their total weight in place.
void Step::gather() {
  give_back_gradients();
  if (shards_) {
    join_shards();
  } else {
    trained_.collect(false);
    total_weight_ = micro_batches_.weight();
  }
}

void Step::unscale() {
  require(phase() != Phase::stepped, "step",
          "unscale() after apply(): the gradients are used up; call LossScaler::update(), then backward()");
  require(phase() != Phase::unscaled, "step", "unscale() was called already since the last apply()");
  require(micro_batches_.count() > 0, "step", "unscale() without a backward(): there is nothing to unscale");
  require(!trained_.parts(), "step",
          "unscale() needs whole gradients; with a sharded update each process has only its part of them");
  check_shards();
  gather();
  const Tensor& gradients = buffers().gradients();
  const double divisor = total_weight_;
  if (per_loss()) {
    for (const UpdateRange& range : trained_.active())
      backend().update().scale_and_limit(gradients.rows(range.first, range.count), 1.0 / divisor,
                                         std::numeric_limits<double>::infinity());
  } else {
    scaler_->repair(gradients, trained_.active(), scale_index_);
    backend().update().unscale(gradients, trained_.active(), {.divisor = divisor}, gradients, state_,
                               scaler_->device_state(scale_index_));
  }
  trained_.mark_all_rows();
  unscaled_ = true;
}

void Step::clear() {
  trained_.drop_gradients();
  trained_.drop_statistics();
  synchronize();
  counters_.drop();
  if (micro_batches_.count() > 0) forget_gathered();
  forget_micro_batches();
}

void Step::forget_micro_batches() {
  if (per_loss()) loss_gradients_->clear();
  if (shards_) shards_->clear();
  unscaled_ = false;
  micro_batches_.clear();
}

// Reverts the micro-batches' contributions to the state and the scales.
void Step::forget_gathered() {
  StepState state = gathered_state();
  if (own_scaler_) {
    own_scaler_->forget_gathered();
  } else if (!per_loss()) {  // other steps may have contributed
    scaler_->forget_losses(state.forward_non_finite, scale_index_);
  }
  state.non_finite = state.forward_non_finite = 0;
  state.loss_sum = state.sum_of_squares = state.amax = 0.0;
  write_state(state);
}

// Uploads the learning rates of the next applied steps when the table is used up.
void Step::fill_rates() {
  if (rates_.covers(attempted_)) return;
  rates_.fill(attempted_, synchronize().applied);  // synchronize() also ensures that no step still reads the
                                                   // table
}

void Step::check_apply() const {
  require(phase() != Phase::stepped, "step",
          "apply() was called already in this iteration: call LossScaler::update() before the next one");
  require(micro_batches_.count() > 0, "step", "apply() without a backward(): there is nothing to apply");
  check_shards();
  require(!trained_.ema() || !trained_.ema()->swapped_in(), "step",
          "the model holds its averages: leave the Ema::Scope before training");
}

// A micro-batch is complete when all of its shards are.
void Step::check_shards() const {
  const int own = shards_ ? options_.shards->own() : 1;
  require(
      micro_batches_.count() % own == 0, "step",
      "{} calls of backward() and pass() are not a multiple of {} shards: call one of them for every shard",
      micro_batches_.count(), own);
}

const Tensor& Step::rates_for(double times) {
  if (times == 1.0) {
    fill_rates();
    return rates_.on_device();
  }
  require(std::isfinite(times) && times >= 0.0, "step",
          "the factor of a step's learning rate must be a number of at least 0, is {}", times);
  mailbox_.wait_for(attempted_ - 1);
  return rates_.once(attempted_, mailbox_.report(attempted_ - 1).applied, times);
}

// The number of applied steps including the next one, if it is applied, for a uniform mean.
std::int64_t Step::averaged_as() { return ends_alike() ? 0 : synchronize().applied + 1; }

void Step::begin_average() {
  Ema* const average = trained_.ema();
  require(average && average->uniform(), "step", "there is no uniform mean (StepOptions::ema) to begin");
  average->begin(synchronize().applied);
}

// Host-side preparation of apply(); returns the learning-rate table.
const Tensor& Step::prepare_apply(double times) {
  check_apply();
  const Tensor& rates = rates_for(times);
  trained_.prepare_update();
  return rates;
}

void Step::apply(double times) {
  const Tensor& rates = prepare_apply(times);
  enqueue_apply(rates, averaged_as());
  finish_step();
}

// Enqueues the device side of apply().
void Step::enqueue_apply(const Tensor& rates, std::int64_t applied) {
  if (!unscaled_) {
    gather();
  } else {
    trained_.collect(shards_ != nullptr, true);
  }
  check_and_decide(rates);
  trained_.update(state_, applied);
}

void Step::check_and_decide(const Tensor& rates) {
  const Tensor& gradients = buffers().gradients();
  const Tensor& scale = scaler_->device_state(scale_index_);
  rules_.loss_weight = total_weight_;
  rules_.divisor = unscaled_ ? 1.0 : total_weight_;
  rules_.unscaled = unscaled_ || per_loss();
  rules_.attributed = per_loss();
  if (!rules_.unscaled) scaler_->repair(gradients, trained_.active(), scale_index_);
  if (options_.check_gradients) {
    const auto check = [&] {
      backend().update().check_gradients(gradients, trained_.active(),
                                         {.divisor = rules_.divisor,
                                          .unscaled = rules_.unscaled,
                                          .magnitude = scaler_->options().estimator != ScaleEstimator::none},
                                         state_, scale);
    };
    trained_.parts() ? shards_->check_in_turn(*static_cast<StepState*>(state_.raw()), check) : check();
  }
  backend().update().decide_step(rules_, rates, state_, scale);
  if (own_scaler_) own_scaler_->move_scales();
}

// Host-side end of a step: enqueues the report, clears gradients, invalidates working copies.
void Step::finish_step() {
  ++scaler_->applied_;
  applied_in_ = scaler_->iteration_;
  if (own_scaler_) own_scaler_->end_iteration();
  ++attempted_;
  if (counters_.settled() < attempted_ - 2) mailbox_.wait_for(attempted_ - 2);
  counters_.close_step(attempted_, outcomes());
  mailbox_.send(attempted_, state_, scaler_->device_state(scale_index_));
  settle_counters();
  trained_.drop_gradients();
  forget_micro_batches();
  if (mailbox_.arrived(attempted_) && mailbox_.report(attempted_).skip) return;  // has changed nothing
  trained_.mark_updated();
}

void Step::set_segment_scales(std::span<const int> log2_scales) {
  require(micro_batches_.count() == 0, "step",
          "segmented loss scales can only change between two steps: call apply() or clear() before");
  require(!per_loss(), "step", "segmented loss scaling excludes a scale for each loss (scaler.scope)");
  trained_.set_segment_scales(log2_scales);
}

const std::int64_t* Step::random_counter(bool applied) const {
  const auto* state = static_cast<const StepState*>(state_.raw());
  return applied ? &state->applied : &state->attempted;
}

std::vector<std::string> Step::lazy_tables() const {
  std::vector<std::string> names;
  for (const std::size_t slot : trained_.lazy_slots())
    names.push_back(buffers().slots()[slot].parameter.name());
  return names;
}

LateCounters::Outcome Step::outcomes() const {
  return [this](std::int64_t attempted) -> std::optional<bool> {
    if (!mailbox_.arrived(attempted)) return std::nullopt;
    return mailbox_.report(attempted).skip;
  };
}

void Step::settle_counters() { counters_.settle(attempted_, outcomes()); }

StepReport Step::last_report() {
  const bool arrived = mailbox_.arrived(attempted_);
  if (!arrived) mailbox_.wait_for(attempted_ - 1);
  settle_counters();
  return mailbox_.report(arrived ? attempted_ : attempted_ - 1);
}

bool Step::arrived() { return mailbox_.arrived(attempted_); }

StepReport Step::report_of(std::int64_t attempted) {
  ensure(attempted == attempted_ || attempted == attempted_ - 1, "step",
         "asked for the report of step {}, the last was {}", attempted, attempted_);
  mailbox_.wait_for(attempted);
  settle_counters();
  return mailbox_.report(attempted);
}

StepReport Step::synchronize() {
  mailbox_.wait_for(attempted_);
  settle_counters();
  return mailbox_.report(attempted_);
}

// The state with the losses of the micro-batches so far.
StepState Step::gathered_state() const {
  const Tensor host = state_.device() == Device{} ? state_ : state_.to(Device{});
  backend().synchronize();
  StepState state;
  std::memcpy(&state, host.raw(), sizeof(state));
  return state;
}

void Step::write_state(const StepState& state) {
  const Tensor host = Tensor::empty({static_cast<Index>(sizeof(state))}, {.dtype = DType::u8});
  std::memcpy(host.raw(), &state, sizeof(state));
  backend().copy_bytes(host, state_);
  backend().synchronize();
}

}  // namespace tandem::optim
