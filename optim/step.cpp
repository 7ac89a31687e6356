#include "optim/step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "autograd/engine.h"
#include "autograd/modes.h"
#include "core/backend.h"
#include "core/error.h"
#include "optim/names.h"

namespace tandem::optim {

namespace {

constexpr std::int64_t kTableEntries = 4096;

constexpr Index kStateBytes = sizeof(StepState), kScaleBytes = sizeof(ScaleState);

Tensor device_copy(const StepState& state, Device device) {
  const Tensor host = Tensor::empty({kStateBytes}, {.dtype = DType::u8});
  std::memcpy(host.raw(), &state, sizeof(state));
  return device == Device{} ? host : host.to(device);
}

}  // namespace

// ---- Construction

Step::Step(nn::Module& module, const std::vector<Optimizer*>& optimizers, StepOptions options)
    : options_(std::move(options)), module_(module), buffers_(module.parameters()) {
  if (!options_.shared_scaler) own_scaler_ = std::make_unique<LossScaler>(options_.scaler, buffers_.device());
  scaler_ = own_scaler_ ? own_scaler_.get() : options_.shared_scaler;
  check_options();
  calls_.resize(static_cast<std::size_t>(losses()));
  assign_parameters(module, optimizers);
  resolve_schedule();
  rules_ = {.skip_non_finite = options_.skip_non_finite && scaler_->options().skips,
            .measured = options_.measure,
            .clip_norm = options_.clip_norm.value_or(std::numeric_limits<double>::infinity())};
  allocate_moments();
  allocate_derived();
  allocate_state();
  take_over();
}

// What allocates comes first, and undoes what it did where it fails: then all of the module moves, or
// nothing.
void Step::take_over() {
  scale_index_ = scaler_->attach();
  try {
    statistics_ = module_.flatten_statistics(buffers_.device());
  } catch (...) {
    scaler_->detach();
    throw;
  }
  buffers_.attach();
  counters_ = module_.counters();
  for (auto& waiting : waiting_) waiting.resize(counters_.size());
  round_initial();
  if (working_.defined()) {
    for (const FlatBuffers::Slot& slot : buffers_.slots())
      set_working_copy(slot.parameter, buffers_.range(working_, slot));
  }
  if (ema_) ema_->start(statistics_.live);
  Backend& backend = backend_for(buffers_.device());
  for (const Tensor& report : reports_)
    backend.copy_bytes(scaler_->device_state(scale_index_), report.rows(kStateBytes, kScaleBytes));
  backend.synchronize();
}

void Step::check_options() const {
  require(options_.accumulate >= 1, "step", "accumulate must be at least 1, is {}", options_.accumulate);
  const auto positive = [](const char* key, double value) {
    require(std::isfinite(value) && value > 0.0, "step", "{} must be positive, is {}", key, value);
  };
  if (options_.clip_norm) positive("clip_norm", *options_.clip_norm);
  if (options_.clip_value) positive("clip_value", *options_.clip_value);
  positive("divisor", options_.divisor);
  const ScalerOptions& s = scaler_->options();
  require(scaler_->device() == buffers_.device(), "step", "the scaler is on {}, the parameters on {}",
          to_string(scaler_->device()), to_string(buffers_.device()));
  require(options_.measure || (!options_.clip_norm && !s.moves()), "step",
          "clip_norm and a dynamic loss scale need the gradients measured; measure is off");
  require(options_.skip_non_finite || s.backoff == 1.0, "step",
          "a dynamic loss scale needs skip_non_finite, which is off");
  const auto storage = [](const char* key, DType dtype) {
    require(is_16bit(dtype) || dtype == DType::f32, "step", "{} is {}, expected f32, f16 or bf16", key,
            name_of(dtype));
  };
  storage("rounding.weights", options_.rounding.weights);
  storage("rounding.moments", options_.rounding.moments);
  require(!options_.rounding.stochastic || options_.rounding.weights != DType::f32, "step",
          "stochastic rounding needs weights of a 16-bit type: f32 masters are not rounded");
  if (const auto rounded = options_.round_statistics) {
    require(is_16bit(*rounded), "step", "statistics are rounded to f16 or bf16, not {}", name_of(*rounded));
  }
}

Step::Phase Step::phase() const {
  if (!own_scaler_ && applied_in_ == scaler_->iteration_) return Phase::stepped;
  return unscaled_ ? Phase::unscaled : Phase::ready;
}

void Step::assign_parameters(const nn::Module& module, const std::vector<Optimizer*>& optimizers) {
  require(!optimizers.empty(), "step", "there is no optimizer");
  const std::vector<Parameter> all = module.parameters();
  const auto& slots = buffers_.slots();
  std::vector<const Optimizer*> owners(slots.size());
  std::vector<const Optimizer::Entry*> entries(slots.size());
  for (const Optimizer* optimizer : optimizers) {
    require(optimizer != nullptr, "step", "an optimizer is null");
    for (const Optimizer::Entry& entry : optimizer->entries()) {
      require(std::ranges::find(all, entry.parameter) != all.end(), "step",
              "parameter {} of {} does not belong to the module", entry.parameter.name(), optimizer->name());
      for (std::size_t s = 0; s < slots.size(); ++s) {
        if (!(slots[s].parameter == entry.parameter)) continue;
        require(!owners[s], "step", "parameter {} belongs to two optimizers", entry.parameter.name());
        owners[s] = optimizer;
        entries[s] = &entry;
      }
    }
  }
  std::vector<std::string> orphans;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (!owners[s]) orphans.push_back(slots[s].parameter.name());
  }
  require(orphans.empty(), "step", "no optimizer has {}; give them to one, or freeze them", listed(orphans));

  for (const Optimizer* optimizer : optimizers) {
    Group& group = groups_.emplace_back(Group{*optimizer, {}, {}});
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (owners[s] != optimizer) continue;
      group.ranges.push_back({.first = slots[s].first,
                              .count = slots[s].count,
                              .slot = static_cast<Index>(s),
                              .lr_factor = static_cast<float>(entries[s]->lr_factor),
                              .weight_decay = static_cast<float>(entries[s]->weight_decay),
                              .adapt = entries[s]->adapt});
    }
    group.active.reserve(group.ranges.size());
  }
  active_.reserve(slots.size());
}

void Step::resolve_schedule() {
  const Optimizer& first = groups_[0].optimizer;
  const double base = options_.schedule ? options_.schedule->peak() : first.lr().value_or(first.default_lr());
  require(!options_.schedule || !first.lr() || *first.lr() == base, "step",
          "{} has the learning rate {}, the schedule {}: give one of the two", first.name(),
          first.lr().value_or(0.0), base);
  schedule_ = options_.schedule ? *options_.schedule : constant(base);
  for (Group& group : groups_) {
    const double lr = group.optimizer.lr().value_or(options_.schedule ? base : group.optimizer.default_lr());
    if (lr == base) continue;
    require(base > 0.0, "step",
            "{} has the learning rate {} beside {} with 0, and further rates are ratios to the first",
            group.optimizer.name(), lr, first.name());
    for (UpdateRange& range : group.ranges)
      range.lr_factor = static_cast<float>(static_cast<double>(range.lr_factor) * (lr / base));
  }
}

void Step::allocate_moments() {
  Backend& backend = backend_for(buffers_.device());
  for (const Group& group : groups_) {
    for (std::size_t m = 0; m < moments_.size(); ++m) {
      const Moment& moment = group.optimizer.moments()[m];
      if (moment.name.empty()) continue;
      if (!moments_[m].defined()) moments_[m] = buffers_.make(MemoryKind::optimizer);
      if (moment.initial == 0.0) continue;
      for (const UpdateRange& range : group.ranges)
        backend.fill(moments_[m].rows(range.first, range.count), moment.initial);
    }
  }
  counts_ = Tensor::zeros({static_cast<Index>(buffers_.slots().size())},
                          {DType::i64, buffers_.device(), MemoryKind::optimizer});
}

// The parameters start on the grid of the type that holds them, and so do the statistics.
void Step::round_initial() {
  Backend& backend = backend_for(buffers_.device());
  if (options_.rounding.weights != DType::f32) {
    backend.round_to(buffers_.masters(), options_.rounding.weights);
    buffers_.masters().storage()->bump_version();
  }
  if (!options_.round_statistics || !statistics_.live.defined()) return;
  for (const Tensor& statistics : {statistics_.live, statistics_.next}) {
    backend.round_to(statistics, *options_.round_statistics);
    statistics.storage()->bump_version();
  }
}

// Of the masters: their 16-bit copies, and the moving averages.
void Step::allocate_derived() {
  if (const auto dtype = options_.working) {
    require(is_16bit(*dtype), "step", "working copies are f16 or bf16, not {}", name_of(*dtype));
    working_ = Tensor::zeros({buffers_.length()}, {*dtype, buffers_.device(), MemoryKind::weights});
  }
  if (!options_.ema) return;
  Index statistics = 0;
  for (const nn::Statistic& statistic : module_.statistics()) statistics += statistic.live.numel();
  ema_ = std::make_unique<Ema>(buffers_, statistics, *options_.ema);
}

// The state in device memory, its reports in host memory, and the learning rates in both.
void Step::allocate_state() {
  StepState initial;
  initial.used_scale = static_cast<float>(scaler_->options().initial);
  state_ = device_copy(initial, buffers_.device());
  for (Tensor& report : reports_) {
    report = transfer_memory({kStateBytes + kScaleBytes}, DType::u8, buffers_.device());
    std::memcpy(report.raw(), &initial, sizeof(initial));
  }
  table_host_ = transfer_memory({1 + kTableEntries}, DType::f64, buffers_.device());
  table_ = Tensor::empty({1 + kTableEntries}, {DType::f64, buffers_.device(), MemoryKind::optimizer});
}

// ---- A step

Tensor Step::seed_for(const Tensor& loss, double weight, int loss_index) const {
  Tensor seed = loss_scale(loss_index).viewed(loss.shape());
  if (weight != 1.0) {
    seed = seed.clone();
    backend_for(seed.device()).scale_and_limit(seed, weight, std::numeric_limits<double>::infinity());
  }
  if (loss.dtype() == DType::f32) return seed;
  const Tensor wide = Tensor::empty(loss.shape(), loss.options());
  backend_for(loss.device()).cast(seed, wide);
  return wide;
}

void Step::check_backward(int loss_index) const {
  require(
      phase() != Phase::stepped, "step",
      "backward() after apply(): the iteration ends with LossScaler::update(), which moves the shared scale");
  require(phase() != Phase::unscaled, "step",
          "backward() after unscale() would add scaled gradients to unscaled ones: call unscale() once, "
          "after the last backward of the step");
  require(loss_index >= 0 && loss_index < losses(), "step",
          "loss number {} of {} (scaler.losses, scope loss)", loss_index, losses());
  const Calls& calls = calls_[static_cast<std::size_t>(loss_index)];
  const bool room = calls.count < options_.accumulate;
  require(
      room, "step", "backward was called {} times{}, which is all that accumulate ({}) allows: call apply()",
      calls.count, losses() > 1 ? fmt::format(" for loss number {}", loss_index) : "", options_.accumulate);
  require(!ema_ || !ema_->swapped_in(), "step",
          "the model holds its averages: leave the Ema::Scope before training");
}

// The samples of the first call that has any are the unit of the others' weights.
void Step::begin_micro_batch(double samples, int loss_index) {
  check_backward(loss_index);
  require(std::isfinite(samples) && samples >= 0.0, "step", "a micro-batch counts 0 samples or more, got {}",
          samples);
  if (micro_batches_ == 0 || per_loss()) {
    buffers_.check_attached();
    for (const FlatBuffers::Slot& slot : buffers_.slots())
      require(!slot.parameter.gradient().defined(), "step",
              "parameter {} has a gradient that no Step::backward made; use it alone, or clear() first",
              slot.parameter.name());
  }
  if (samples > 0.0 && heaviest() == 0.0) reference_ = samples;
}

void Step::enqueue_backward(const Tensor& loss, double weight, int loss_index) {
  require(loss.defined() && loss.numel() == 1 && (loss.dtype() == DType::f32 || loss.dtype() == DType::f64),
          "step", "the loss must be one f32 (or f64) number, got {}; reduce it with sum or mean",
          to_string(loss));
  require(loss.device() == buffers_.device(), "step", "the loss is on {}, the parameters on {}",
          to_string(loss.device()), to_string(buffers_.device()));
  const Tensor seed = seed_for(loss, weight, loss_index);
  tandem::backward(std::span(&loss, 1), std::span(&seed, 1));
  backend_for(buffers_.device())
      .note_loss(loss, weight, state_, scaler_->device_state(scale_index(loss_index)));
}

void Step::end_micro_batch(double weight, int loss_index) {
  Calls& calls = calls_[static_cast<std::size_t>(loss_index)];
  ++micro_batches_;
  ++calls.count;
  calls.weight += weight;
}

void Step::backward(const Tensor& loss, double samples, int loss_index) {
  begin_micro_batch(samples, loss_index);
  const double weight = samples / reference_;
  try {
    enqueue_backward(loss, weight, loss_index);
  } catch (...) {
    clear();
    throw;
  }
  if (per_loss()) unscale_loss(loss_index);
  end_micro_batch(weight, loss_index);
}

// Of the micro-batches so far, in units of reference_.
double Step::heaviest() const { return std::ranges::max_element(calls_, {}, &Calls::weight)->weight; }

// What the sum of their gradients is divided by: a sum of nothing stays 0.
double Step::weight() const {
  const double sum = heaviest();
  return sum > 0.0 ? sum : 1.0;
}

// Adds the gradients that a loss left on the leaves, divided by its scale, to those of the other losses.
void Step::unscale_loss(int loss_index) {
  const auto& slots = buffers_.slots();
  if (!accumulated_.defined()) {
    accumulated_ = buffers_.make(MemoryKind::gradients);
    has_accumulated_.assign(slots.size(), 0);
  }
  fresh_.clear();
  further_.clear();
  for (const Group& group : groups_) {
    for (const UpdateRange& range : group.ranges) {
      const std::size_t slot = static_cast<std::size_t>(range.slot);
      if (!slots[slot].parameter.gradient().defined()) continue;
      (has_accumulated_[slot] ? further_ : fresh_).push_back(range);
      has_accumulated_[slot] = 1;
    }
  }
  Backend& backend = backend_for(buffers_.device());
  const Tensor scale = scaler_->device_state(loss_index);
  const auto add = [&](const std::vector<UpdateRange>& ranges, bool further) {
    sanitize(ranges, loss_index);
    backend.unscale(buffers_.gradients(), ranges, {.add = further, .attribute = true}, accumulated_, state_,
                    scale);
  };
  if (!fresh_.empty()) add(fresh_, false);
  if (!further_.empty()) add(further_, true);
  for (const FlatBuffers::Slot& slot : slots) slot.parameter.leaf().clear_gradient();
}

void Step::sanitize(const std::vector<UpdateRange>& ranges, int scale_index) {
  const ScalerOptions& scaler = scaler_->options();
  if (scaler.floor_action != FloorAction::sanitize) return;
  backend_for(buffers_.device())
      .sanitize(buffers_.gradients(), ranges, static_cast<float>(scaler.floor),
                scaler_->device_state(scale_index));
}

// Gives the sum over the losses back to the leaves.
void Step::take_accumulated() {
  if (!per_loss() || unscaled_ || !accumulated_.defined()) return;
  backend_for(buffers_.device()).copy_bytes(accumulated_, buffers_.gradients());
  const auto& slots = buffers_.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (has_accumulated_[i]) slots[i].parameter.leaf().mark_written();
    has_accumulated_[i] = 0;
  }
}

void Step::unscale() {
  require(phase() != Phase::stepped, "step",
          "unscale() after apply(): the gradients are used up; call LossScaler::update(), then backward()");
  require(phase() != Phase::unscaled, "step", "unscale() was called already since the last apply()");
  require(micro_batches_ > 0, "step", "unscale() without a backward(): there is nothing to unscale");
  take_accumulated();
  collect_ranges();
  Backend& backend = backend_for(buffers_.device());
  const Tensor& gradients = buffers_.gradients();
  if (options_.reduce) options_.reduce(gradients);
  const double divisor = weight() * options_.divisor;
  if (per_loss()) {
    for (const UpdateRange& range : active_)
      backend.scale_and_limit(gradients.rows(range.first, range.count), 1.0 / divisor,
                              std::numeric_limits<double>::infinity());
  } else {
    sanitize(active_, scale_index_);
    backend.unscale(gradients, active_, {.divisor = divisor}, gradients, state_,
                    scaler_->device_state(scale_index_));
  }
  unscaled_ = true;
}

void Step::clear() {
  for (const FlatBuffers::Slot& slot : buffers_.slots()) slot.parameter.leaf().clear_gradient();
  if (statistics_.live.defined()) {
    backend_for(buffers_.device()).copy_bytes(statistics_.live, statistics_.next);
    statistics_.next.storage()->bump_version();
  }
  synchronize();
  for (const nn::Counter& counter : counters_) *counter.next = *counter.live;
  if (micro_batches_ > 0) reset_gathered();
  std::ranges::fill(has_accumulated_, 0);
  unscaled_ = false;
  micro_batches_ = 0;
  calls_.assign(calls_.size(), {});
}

// Forgets what the micro-batches told the state and the scales.
void Step::reset_gathered() {
  Backend& backend = backend_for(buffers_.device());
  const auto change = [&]<class State>(const Tensor& device, State, auto forget) {
    const Tensor host = Tensor::empty({static_cast<Index>(sizeof(State))}, {.dtype = DType::u8});
    backend.copy_bytes(device, host);
    backend.synchronize();
    State state;
    std::memcpy(&state, host.raw(), sizeof(state));
    forget(state);
    std::memcpy(host.raw(), &state, sizeof(state));
    backend.copy_bytes(host, device);
    backend.synchronize();
  };
  change(state_, StepState{}, [](StepState& state) {
    state.non_finite = 0;
    state.loss_sum = state.sum_of_squares = state.amax = 0.0;
  });
  if (!own_scaler_) return;  // of a shared one other steps may have told something
  for (int i = 0; i < scaler_->count(); ++i)
    change(scaler_->device_state(i), ScaleState{}, [](ScaleState& scale) {
      scale.found = scale.forward_non_finite = 0;
      scale.amax = 0.0;
    });
}

// Which ranges have a gradient in this step.
void Step::collect_ranges() {
  Backend& backend = backend_for(buffers_.device());
  const auto& slots = buffers_.slots();
  active_.clear();
  for (Group& group : groups_) {
    group.active.clear();
    for (const UpdateRange& range : group.ranges) {
      const bool has_gradient = slots[static_cast<std::size_t>(range.slot)].parameter.gradient().defined();
      if (!has_gradient && !options_.reduce) continue;
      if (!has_gradient) backend.fill(buffers_.gradients().rows(range.first, range.count), 0.0);
      group.active.push_back(range);
      active_.push_back(range);
    }
  }
  require(!active_.empty(), "step",
          "no trainable parameter has a gradient: the loss depends on none of them");
}

// Puts the learning rates of the next kTableEntries applied steps on the device, when the table is used up.
void Step::fill_table() {
  if (attempted_ < table_end_) return;
  const std::int64_t applied = synchronize().applied;  // also: no step still reads the table
  double* const table = table_host_.data<double>();
  table[0] = static_cast<double>(applied);
  for (std::int64_t i = 0; i < kTableEntries; ++i) table[1 + i] = (*schedule_)(applied + i);
  backend_for(buffers_.device()).copy_bytes(table_host_, table_);
  table_end_ = attempted_ + kTableEntries;  // in attempted steps, of which at most all are applied
}

void Step::check_apply() const {
  require(phase() != Phase::stepped, "step",
          "apply() was called already in this iteration: call LossScaler::update() before the next one");
  require(micro_batches_ > 0, "step", "apply() without a backward(): there is nothing to apply");
  require(!ema_ || !ema_->swapped_in(), "step",
          "the model holds its averages: leave the Ema::Scope before training");
}

void Step::apply() {
  check_apply();
  fill_table();
  enqueue_apply();
  record();
}

// What the device does at the end of a step.
void Step::enqueue_apply() {
  Backend& backend = backend_for(buffers_.device());
  take_accumulated();
  collect_ranges();
  if (options_.reduce && !unscaled_) options_.reduce(buffers_.gradients());
  check_and_decide();
  update_groups();
  if (statistics_.live.defined()) {
    if (options_.round_statistics) backend.round_to(statistics_.next, *options_.round_statistics);
    backend.commit(statistics_.next, statistics_.live, state_);
  }
  if (ema_) ema_->update(state_);
}

void Step::check_and_decide() {
  Backend& backend = backend_for(buffers_.device());
  const Tensor& gradients = buffers_.gradients();
  const Tensor scale = scaler_->device_state(scale_index_);
  const ScalerOptions& scaler = scaler_->options();
  rules_.loss_weight = weight();
  rules_.divisor = unscaled_ ? 1.0 : weight() * options_.divisor;
  rules_.unscaled = unscaled_ || per_loss();
  rules_.attributed = per_loss();
  if (!rules_.unscaled) sanitize(active_, scale_index_);
  if (options_.measure)
    backend.check_gradients(gradients, active_,
                            {.divisor = rules_.divisor,
                             .unscaled = rules_.unscaled,
                             .magnitude = scaler.estimator != ScaleEstimator::none},
                            state_, scale);
  backend.decide(rules_, table_, state_, scale);
  if (own_scaler_) own_scaler_->move_scales();
}

void Step::update_groups() {
  Backend& backend = backend_for(buffers_.device());
  for (const Group& group : groups_) {
    if (group.active.empty()) continue;
    UpdateRule rule = group.optimizer.rule();
    rule.clip_value = options_.clip_value.value_or(std::numeric_limits<double>::infinity());
    backend.update(rule, group.active,
                   {.master = buffers_.masters(),
                    .gradient = buffers_.gradients(),
                    .working = working_,
                    .moment1 = moments_[0],
                    .moment2 = moments_[1],
                    .moment3 = moments_[2],
                    .counts = counts_,
                    .rounding = options_.rounding},
                   state_);
  }
}

std::int64_t Step::update_bytes() const {
  constexpr std::int64_t kValue = sizeof(float), kBoth = 2 * kValue;  // f32 read; read and written
  std::int64_t bytes = 0;
  for (const Group& group : groups_) {
    std::int64_t each = kValue + kBoth + (ema_ ? kBoth : 0);
    for (const Moment& moment : group.optimizer.moments()) each += moment.name.empty() ? 0 : kBoth;
    if (working_.defined()) each += static_cast<std::int64_t>(size_of(working_.dtype()));
    for (const UpdateRange& range : group.ranges) bytes += each * range.count;
  }
  if (statistics_.live.defined()) bytes += 2 * static_cast<std::int64_t>(statistics_.live.bytes());
  return bytes;
}

// Lets what the step's forward added to the counters wait for its outcome.
void Step::count_batches() {
  const std::size_t slot = static_cast<std::size_t>(attempted_ % 2);
  if (settled_ < attempted_ - 2) {
    backend_for(buffers_.device()).wait_for(marks_[slot]);  // two steps old
    settle_counters();
  }
  const bool earlier = settled_ < attempted_ - 1;
  for (std::size_t i = 0; i < counters_.size(); ++i)
    waiting_[slot][i] = *counters_[i].next - *counters_[i].live - (earlier ? waiting_[1 - slot][i] : 0);
}

// Takes the outcomes that have arrived into the counters.
void Step::settle_counters() {
  for (; settled_ < attempted_; ++settled_) {
    const std::size_t slot = static_cast<std::size_t>((settled_ + 1) % 2);
    if (!backend_for(buffers_.device()).reached(marks_[slot])) return;
    const bool skipped = report(slot).skip;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      if (skipped) {
        *counters_[i].next -= waiting_[slot][i];
      } else {
        *counters_[i].live += waiting_[slot][i];
      }
    }
  }
}

// Closes the step on the host: sends the report, and lets the gradients and what was derived from the masters
// expire.
void Step::record() {
  Backend& backend = backend_for(buffers_.device());
  unscaled_ = false;
  ++scaler_->applied_;
  applied_in_ = scaler_->iteration_;
  if (own_scaler_) own_scaler_->end_iteration();
  ++attempted_;
  count_batches();
  const std::size_t slot = static_cast<std::size_t>(attempted_ % 2);
  backend.copy_bytes(state_, reports_[slot].rows(0, kStateBytes));
  backend.copy_bytes(scaler_->device_state(scale_index_), reports_[slot].rows(kStateBytes, kScaleBytes));
  marks_[slot] = backend.mark();
  settle_counters();
  for (const FlatBuffers::Slot& s : buffers_.slots()) s.parameter.leaf().clear_gradient();
  micro_batches_ = 0;
  calls_.assign(calls_.size(), {});
  if (backend.reached(marks_[slot]) && report(slot).skip) return;  // known to have changed nothing
  buffers_.masters().storage()->bump_version();
  if (working_.defined()) {
    working_.storage()->bump_version();
    for (const FlatBuffers::Slot& s : buffers_.slots())
      mark_working_copy_current(s.parameter, working_.dtype());
  }
  if (statistics_.live.defined()) {
    statistics_.live.storage()->bump_version();
    statistics_.next.storage()->bump_version();
  }
}

const std::int64_t* Step::random_counter(bool applied) const {
  const auto* state = static_cast<const StepState*>(state_.raw());
  return applied ? &state->applied : &state->attempted;
}

// ---- Reports

StepReport Step::report(std::size_t slot) const {
  StepState s;
  ScaleState scale;
  std::memcpy(&s, reports_[slot].raw(), sizeof(s));
  std::memcpy(&scale, reports_[slot].data<std::uint8_t>() + kStateBytes, sizeof(scale));
  return {.attempted = s.attempted,
          .applied = s.applied,
          .skipped = s.skipped,
          .consecutive_skips = s.consecutive_skips,
          .skip = s.skip != 0,
          .learning_rate = s.learning_rate,
          .loss = s.loss,
          .gradient_norm = s.gradient_norm,
          .clip_factor = static_cast<double>(s.clip_factor),
          .loss_scale = static_cast<double>(s.used_scale),
          .next_loss_scale = static_cast<double>(scale.value),
          .exhausted = scale.exhausted != 0};
}

StepReport Step::last_report() {
  Backend& backend = backend_for(buffers_.device());
  const std::size_t last = static_cast<std::size_t>(attempted_ % 2);
  const bool arrived = backend.reached(marks_[last]);
  if (!arrived) backend.wait_for(marks_[1 - last]);
  settle_counters();
  return report(arrived ? last : 1 - last);
}

bool Step::arrived() {
  return backend_for(buffers_.device()).reached(marks_[static_cast<std::size_t>(attempted_ % 2)]);
}

StepReport Step::report_of(std::int64_t attempted) {
  ensure(attempted == attempted_ || attempted == attempted_ - 1, "step",
         "asked for the report of step {}, the last was {}", attempted, attempted_);
  const std::size_t slot = static_cast<std::size_t>(attempted % 2);
  backend_for(buffers_.device()).wait_for(marks_[slot]);
  settle_counters();
  return report(slot);
}

StepReport Step::synchronize() {
  const std::size_t last = static_cast<std::size_t>(attempted_ % 2);
  backend_for(buffers_.device()).wait_for(marks_[last]);
  settle_counters();
  return report(last);
}

}  // namespace tandem::optim
