// State of a Step as named tensors, for checkpoints.
#include <unordered_map>

#include "core/backend.h"
#include "core/error.h"
#include "optim/step.h"
#include "optim/step/saved_state.h"

namespace tandem::optim {

namespace {
constexpr const char* kAverageBegun = "average.begun";  // see Ema::begun
}

// The gradients of the micro-batches so far, and whether a slot has one.
const Tensor& Step::gradients_so_far() { return per_loss() ? loss_gradients_->sum() : buffers().gradients(); }
bool Step::has_gradient_so_far(std::size_t slot) const {
  return per_loss() ? loss_gradients_->has(slot) : buffers().slots()[slot].parameter.gradient().defined();
}

Tensor Step::accumulation_state() const {
  const std::vector<double> values = micro_batches_.values(gathered_state());
  return Tensor::from(values, {static_cast<Index>(values.size())});
}

std::vector<NamedTensor> Step::state(std::string_view prefix) {
  return state_with(trained_.gathered(), prefix);
}

std::vector<NamedTensor> Step::common_state(std::string_view prefix) {
  return state_with(trained_.named(), prefix);
}

std::vector<NamedTensor> Step::state_with(std::vector<NamedTensor> state, std::string_view prefix) {
  require(!ema() || !ema()->swapped_in(), "state",
          "the model holds its averages: leave the Ema::Scope before saving");
  require(!unscaled_, "state", "the gradients are unscaled already: call apply() before saving");
  require(!shards_ || micro_batches_.count() == 0, "state",
          "a step over shards is saved between two steps: call apply() or clear() before");
  synchronize();
  const auto add = [&](std::vector<NamedTensor> more) { std::ranges::move(more, std::back_inserter(state)); };
  const auto add_count = [&](const std::string& name, std::int64_t count) {
    state.emplace_back(name, Tensor::from(std::vector<std::int64_t>{count}, {1}));
  };
  add(named(mailbox_.state(attempted_)));
  if (own_scaler_) add(own_scaler_->state());
  state.emplace_back(kStepAccumulation, accumulation_state());
  for (const nn::Counter& counter : counters_.counters()) add_count("counter." + counter.name, *counter.live);
  if (ema() && ema()->uniform()) add_count(kAverageBegun, ema()->begun());
  if (micro_batches_.count() > 0) {
    const auto& slots = buffers().slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (has_gradient_so_far(i))
        state.emplace_back("gradient." + slots[i].parameter.name(),
                           buffers().range(gradients_so_far(), slots[i]));
    }
    for (const std::size_t i : trained_.lazy_slots())
      if (has_gradient_so_far(i)) state.emplace_back("marks." + slots[i].parameter.name(), slots[i].marks);
    add(trained_.next_statistics());
    for (const nn::Counter& counter : counters_.counters())
      add_count("next_counter." + counter.name, *counter.next);
  }
  return with_prefix(std::move(state), prefix);
}

std::vector<NamedTensor> Step::converted(std::vector<NamedTensor> state, std::string_view prefix) {
  std::unordered_map<std::string, DType> types;
  for (const auto& [name, target] :
       with_prefix(trained_.named_with(trained_.optimizer_state().to_load()), prefix))
    types.emplace(name, target.dtype());
  const std::string scaler = std::string(prefix) + "scaler.";
  std::erase_if(state, [&](const NamedTensor& named) { return named.first.starts_with(scaler); });
  for (auto& [name, tensor] : state) {
    const auto type = types.find(name);
    if (type == types.end() || !tensor.defined() || tensor.dtype() == type->second) continue;
    if (!is_floating(tensor.dtype()) || !is_floating(type->second)) continue;  // load_state reports the error
    const Tensor cast = Tensor::empty(
        tensor.shape(), {.dtype = type->second, .device = tensor.device(), .kind = MemoryKind::data});
    backend_for(tensor.device()).cast(tensor, cast);
    tensor = cast;
  }
  if (own_scaler_) {
    for (NamedTensor& scale : with_prefix(own_scaler_->state(), prefix)) state.push_back(std::move(scale));
  }
  return state;
}

// The targets of load_state: tensors to copy into, and numbers.
struct Step::Incoming {
  OptimizerState::Values moments{};  // whole
  std::vector<NamedTensor> targets;  // all expected tensors
  std::vector<std::pair<std::int64_t*, Tensor>> counts;
  std::vector<char> has_gradient;  // by slot
  bool accumulating = false;       // saved between micro-batches of a step
  Tensor counters = Tensor::empty({4}, {.dtype = DType::i64});
  Tensor values = Tensor::empty({5}, {.dtype = DType::f64});
  Tensor accumulation{};

  void expect_count(const std::string& name, std::int64_t* count) {
    counts.emplace_back(count, Tensor::empty({1}, {.dtype = DType::i64}));
    targets.emplace_back(name, counts.back().second);
  }
};

Step::Incoming Step::expected(const GivenState& given) {
  Incoming in{.moments = trained_.optimizer_state().to_load(),
              .has_gradient = std::vector<char>(buffers().slots().size(), 0)};
  in.targets = trained_.named_with(in.moments);
  if (own_scaler_) std::ranges::move(own_scaler_->state(), std::back_inserter(in.targets));
  in.accumulation = accumulation_state();
  in.targets.emplace_back(kStepCounters, in.counters);
  in.targets.emplace_back(kStepValues, in.values);
  in.targets.emplace_back(kStepAccumulation, in.accumulation);
  for (const nn::Counter& counter : counters_.counters())
    in.expect_count("counter." + counter.name, counter.live);
  if (ema() && ema()->uniform()) in.expect_count(kAverageBegun, &ema()->begun());

  const Tensor* const progress = given.find(kStepAccumulation);
  in.accumulating = progress && progress->defined() && progress->numel() == in.accumulation.numel() &&
                    progress->to_vector<double>()[0] > 0.0;
  if (!in.accumulating) return in;
  for (std::size_t i = 0; i < in.has_gradient.size(); ++i) {
    const FlatBuffers::Slot& slot = buffers().slots()[i];
    if (!given.find("gradient." + slot.parameter.name())) continue;
    in.has_gradient[i] = 1;
    in.targets.emplace_back("gradient." + slot.parameter.name(), buffers().range(gradients_so_far(), slot));
  }
  for (const std::size_t i : trained_.lazy_slots()) {
    const FlatBuffers::Slot& slot = buffers().slots()[i];
    if (in.has_gradient[i] != 0) in.targets.emplace_back("marks." + slot.parameter.name(), slot.marks);
  }
  std::ranges::move(trained_.next_statistics(), std::back_inserter(in.targets));
  for (const nn::Counter& counter : counters_.counters())
    in.expect_count("next_counter." + counter.name, counter.next);
  return in;
}

void Step::load_state(const std::vector<NamedTensor>& state, std::string_view prefix) {
  require(!ema() || !ema()->swapped_in(), "state",
          "the model holds its averages: leave the Ema::Scope before loading");
  synchronize();
  const GivenState given(state, prefix);
  const Incoming in = expected(given);
  given.check_fit(in.targets);
  StepState loaded =
      step_state(given.at(kStepCounters), given.at(kStepValues), given.prefix() + kStepCounters);
  const std::vector<double> progress = given.at(kStepAccumulation).to_vector<double>();
  micro_batches_.check(progress, (given.prefix() + kStepAccumulation).c_str());
  if (own_scaler_) own_scaler_->load_state(state, prefix);  // the last call that may throw

  for (const auto& [name, target] : in.targets) {
    backend_for(target.device()).copy_bytes(given.at(name).to(target.device()), target);
    target.storage()->bump_version();
  }
  micro_batches_.take(progress, loaded);
  resume(in, loaded);
}

// Continues from the copied state.
void Step::resume(const Incoming& in, const StepState& loaded) {
  for (const auto& [count, tensor] : in.counts) *count = tensor.data<std::int64_t>()[0];
  trained_.optimizer_state().take(in.moments);
  trained_.drop_gradients();
  if (per_loss()) {
    loss_gradients_->resume(in.has_gradient);
  } else {
    for (std::size_t i = 0; i < in.has_gradient.size(); ++i)
      if (in.has_gradient[i]) buffers().slots()[i].parameter.leaf().mark_written();
  }
  if (in.accumulating) {
    trained_.mark_all_rows();
  } else {
    counters_.drop();
    trained_.drop_statistics();
  }
  write_state(loaded);
  mailbox_.reset(loaded, scaler_->device_state(scale_index_));
  unscaled_ = false;
  applied_in_ = -1;
  attempted_ = loaded.attempted;
  counters_.jump_to(attempted_);
  rates_.expire();
}

}  // namespace tandem::optim
