// The state of a Step as named tensors: what a checkpoint keeps of it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "core/backend.h"
#include "core/error.h"
#include "optim/names.h"
#include "optim/step.h"

namespace tandem::optim {

namespace {

constexpr const char* kCounters = "step.counters";  // i64: attempted, applied, skipped, consecutive skips
// f64: used loss scale, learning rate, norm, clip factor, loss
constexpr const char* kValues = "step.values";
constexpr const char* kAccumulation =
    "step.accumulation";  // f64: micro-batches, samples of the first, non-finite values found in them, sum of
                          // their losses, and for each loss its backward calls and their weight

using Given = std::unordered_map<std::string, Tensor>;

// Refuses a state whose names or tensors differ from `targets`.
void check_fit(const Given& given, const std::vector<NamedTensor>& targets) {
  std::vector<std::string> missing, unexpected;
  std::unordered_map<std::string, bool> known;
  for (const auto& [name, target] : targets) {
    known[name] = true;
    const auto found = given.find(name);
    if (found == given.end()) {
      missing.push_back(name);
      continue;
    }
    const Tensor& tensor = found->second;
    require(tensor.defined() && tensor.shape() == target.shape() && tensor.dtype() == target.dtype(), "state",
            "{} is {}, expected {}", name, to_string(tensor), to_string(target));
  }
  for (const auto& [name, tensor] : given) {
    if (!known.contains(name)) unexpected.push_back(name);
  }
  std::ranges::sort(unexpected);
  require(missing.empty() && unexpected.empty(), "state",
          "the state was saved for another model or optimizer: {} missing ({}), {} unexpected ({})",
          missing.size(), listed(missing), unexpected.size(), listed(unexpected));
}

// Counts that no step can have come to.
void check_counters(const std::vector<std::int64_t>& n) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const bool counts = std::ranges::all_of(n, [](std::int64_t count) { return count >= 0 && count <= kMost; });
  require(counts && n[1] + n[2] == n[0] && n[3] <= n[2], "state",
          "{} is damaged: {} attempted, {} applied, {} skipped, {} in a row", kCounters, n[0], n[1], n[2],
          n[3]);
}

// The same for the micro-batches of the step under way, of which there are at most `most`; each of `calls` is
// a count of at most `accumulate` and its weight.
void check_progress(std::span<const double> values, int most, int accumulate) {
  const auto count_up_to = [](double value, double limit) {
    return value >= 0.0 && value <= limit && value == std::floor(value);
  };
  require(count_up_to(values[0], most), "state", "saved after {} micro-batches of a step, this one takes {}",
          values[0], most);
  bool sound = values[1] > 0.0 && std::isfinite(values[1]) && count_up_to(values[2], INT32_MAX);
  for (std::size_t i = 4; i + 1 < values.size(); i += 2) {
    require(!count_up_to(values[i], INT32_MAX) || values[i] <= accumulate, "state",
            "saved after {} micro-batches of a step, accumulate is {}", values[i], accumulate);
    sound =
        sound && count_up_to(values[i], accumulate) && values[i + 1] >= 0.0 && std::isfinite(values[i + 1]);
  }
  require(sound, "state", "{} is damaged: counts and weights of micro-batches are finite and not negative",
          kAccumulation);
}

}  // namespace

StepState Step::host_state() {
  synchronize();
  StepState state;
  std::memcpy(&state, reports_[static_cast<std::size_t>(attempted_ % 2)].raw(), sizeof(state));
  return state;
}

// Where the gradients of the micro-batches so far are, and whether a slot has one.
const Tensor& Step::gradients_so_far() const { return per_loss() ? accumulated_ : buffers_.gradients(); }
bool Step::has_gradient_so_far(std::size_t slot) const {
  return per_loss() ? has_accumulated_[slot] != 0 : buffers_.slots()[slot].parameter.gradient().defined();
}

// The state as the micro-batches so far have left it.
StepState Step::gathered_state() const {
  const Tensor host = state_.device() == Device{} ? state_ : state_.to(Device{});
  backend_for(state_.device()).synchronize();
  StepState state;
  std::memcpy(&state, host.raw(), sizeof(state));
  return state;
}

Tensor Step::accumulation_state() const {
  const StepState gathered = gathered_state();
  std::vector<double> values{static_cast<double>(micro_batches_), reference_,
                             static_cast<double>(gathered.non_finite), gathered.loss_sum};
  for (const Calls& calls : calls_) {
    values.push_back(static_cast<double>(calls.count));
    values.push_back(calls.weight);
  }
  return Tensor::from(values, {static_cast<Index>(values.size())});
}

// Views of everything that lives from step to step.
std::vector<NamedTensor> Step::persistent_state() {
  std::vector<NamedTensor> state;
  const auto& slots = buffers_.slots();
  for (const Group& group : groups_) {
    for (const UpdateRange& range : group.ranges) {
      const FlatBuffers::Slot& slot = slots[static_cast<std::size_t>(range.slot)];
      const std::string& name = slot.parameter.name();
      state.emplace_back("master." + name, buffers_.range(buffers_.masters(), slot));
      for (std::size_t m = 0; m < moments_.size(); ++m) {
        const Moment& moment = group.optimizer.moments()[m];
        if (!moment.name.empty())
          state.emplace_back("moment." + moment.name + "." + name, buffers_.range(moments_[m], slot));
      }
      state.emplace_back("updates." + name, counts_.rows(range.slot, 1));
      if (ema_) state.emplace_back("average." + name, buffers_.range(ema_->average(), slot));
    }
  }
  Index first = 0;
  for (const nn::Statistic& statistic : module_.statistics()) {
    const Index count = statistic.live.numel();
    state.emplace_back("statistic." + statistic.name, statistic.live.detach());
    if (ema_)
      state.emplace_back("average_statistic." + statistic.name,
                         ema_->average_statistics().rows(first, count).viewed(statistic.live.shape()));
    first += count;
  }
  return state;
}

std::vector<NamedTensor> Step::state() {
  require(!ema_ || !ema_->swapped_in(), "state",
          "the model holds its averages: leave the Ema::Scope before saving");
  require(!unscaled_, "state", "the gradients are unscaled already: call apply() before saving");
  const StepState s = host_state();
  std::vector<NamedTensor> state = persistent_state();
  state.emplace_back(
      kCounters,
      Tensor::from(std::vector<std::int64_t>{s.attempted, s.applied, s.skipped, s.consecutive_skips}, {4}));
  state.emplace_back(
      kValues, Tensor::from(std::vector<double>{static_cast<double>(s.used_scale), s.learning_rate,
                                                s.gradient_norm, static_cast<double>(s.clip_factor), s.loss},
                            {5}));
  if (own_scaler_) {
    for (NamedTensor& named : own_scaler_->state()) state.push_back(std::move(named));
  }
  state.emplace_back(kAccumulation, accumulation_state());
  const auto add_count = [&](const std::string& name, std::int64_t count) {
    state.emplace_back(name, Tensor::from(std::vector<std::int64_t>{count}, {1}));
  };
  for (const nn::Counter& counter : counters_) add_count("counter." + counter.name, *counter.live);
  if (micro_batches_ > 0) {
    const auto& slots = buffers_.slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (has_gradient_so_far(i))
        state.emplace_back("gradient." + slots[i].parameter.name(),
                           buffers_.range(gradients_so_far(), slots[i]));
    }
    for (const nn::Statistic& statistic : module_.statistics())
      state.emplace_back("next_statistic." + statistic.name, statistic.next.detach());
    for (const nn::Counter& counter : counters_) add_count("next_counter." + counter.name, *counter.next);
  }
  return state;
}

std::vector<NamedTensor> Step::converted(std::vector<NamedTensor> state) {
  std::unordered_map<std::string, DType> types;
  for (const auto& [name, target] : persistent_state()) types.emplace(name, target.dtype());
  std::erase_if(state, [](const NamedTensor& named) { return named.first.starts_with("scaler."); });
  for (auto& [name, tensor] : state) {
    const auto type = types.find(name);
    if (type == types.end() || !tensor.defined() || tensor.dtype() == type->second) continue;
    if (!is_floating(tensor.dtype()) || !is_floating(type->second))
      continue;  // load_state says what is wrong
    const Tensor cast = Tensor::empty(
        tensor.shape(), {.dtype = type->second, .device = tensor.device(), .kind = MemoryKind::data});
    backend_for(tensor.device()).cast(tensor, cast);
    tensor = cast;
  }
  if (own_scaler_) {
    for (NamedTensor& scale : own_scaler_->state()) state.push_back(std::move(scale));
  }
  return state;
}

void Step::load_state(const std::vector<NamedTensor>& state) {
  require(!ema_ || !ema_->swapped_in(), "state",
          "the model holds its averages: leave the Ema::Scope before loading");
  synchronize();
  Given given(state.begin(), state.end());
  require(given.size() == state.size(), "state", "a name occurs twice");
  std::vector<NamedTensor> targets = persistent_state();
  const Tensor counters = Tensor::empty({4}, {.dtype = DType::i64}),
               values = Tensor::empty({5}, {.dtype = DType::f64});
  std::vector<NamedTensor> scales;
  if (own_scaler_) scales = own_scaler_->state();
  for (const NamedTensor& scale : scales) targets.push_back(scale);
  const Tensor accumulation = accumulation_state();
  targets.emplace_back(kCounters, counters);
  targets.emplace_back(kValues, values);
  targets.emplace_back(kAccumulation, accumulation);
  std::vector<std::pair<std::int64_t*, Tensor>> counts;
  const auto expect_count = [&](const std::string& name, std::int64_t* count) {
    counts.emplace_back(count, Tensor::empty({1}, {.dtype = DType::i64}));
    targets.emplace_back(name, counts.back().second);
  };
  for (const nn::Counter& counter : counters_) expect_count("counter." + counter.name, counter.live);

  const auto in_progress = given.find(kAccumulation);
  const bool accumulating = in_progress != given.end() && in_progress->second.defined() &&
                            in_progress->second.numel() == accumulation.numel() &&
                            in_progress->second.to_vector<double>()[0] > 0.0;
  std::vector<char> with_gradient(buffers_.slots().size(), 0);
  if (accumulating) {
    if (per_loss() && !accumulated_.defined()) accumulated_ = buffers_.make(MemoryKind::gradients);
    for (std::size_t i = 0; i < with_gradient.size(); ++i) {
      const FlatBuffers::Slot& slot = buffers_.slots()[i];
      if (!given.contains("gradient." + slot.parameter.name())) continue;
      with_gradient[i] = 1;
      targets.emplace_back("gradient." + slot.parameter.name(), buffers_.range(gradients_so_far(), slot));
    }
    for (const nn::Statistic& statistic : module_.statistics())
      targets.emplace_back("next_statistic." + statistic.name, statistic.next.detach());
    for (const nn::Counter& counter : counters_) expect_count("next_counter." + counter.name, counter.next);
  }
  check_fit(given, targets);
  check_counters(given.at(kCounters).to_vector<std::int64_t>());
  const std::vector<double> progress = given.at(kAccumulation).to_vector<double>();
  check_progress(progress, options_.accumulate * losses(), options_.accumulate);
  std::vector<Calls> calls(calls_.size());
  for (std::size_t i = 0; i < calls.size(); ++i)
    calls[i] = {static_cast<int>(progress[4 + 2 * i]), progress[5 + 2 * i]};
  if (own_scaler_) {
    for (auto& [name, tensor] : scales) tensor = given.at(name);
    own_scaler_->load_state(scales);  // the last that may refuse
  }

  Backend& backend = backend_for(buffers_.device());
  for (const auto& [name, target] : targets) {
    backend_for(target.device()).copy_bytes(given.at(name).to(target.device()), target);
    target.storage()->bump_version();
  }
  for (const auto& [count, tensor] : counts) *count = tensor.data<std::int64_t>()[0];
  if (!accumulating) {
    for (const nn::Counter& counter : counters_) *counter.next = *counter.live;
  }
  for (const FlatBuffers::Slot& slot : buffers_.slots()) slot.parameter.leaf().clear_gradient();
  if (per_loss()) {
    has_accumulated_ = with_gradient;
  } else {
    for (std::size_t i = 0; i < with_gradient.size(); ++i)
      if (with_gradient[i]) buffers_.slots()[i].parameter.leaf().mark_written();
  }
  if (!accumulating && statistics_.live.defined()) backend.copy_bytes(statistics_.live, statistics_.next);

  const std::int64_t* n = counters.data<std::int64_t>();
  const double* v = values.data<double>();
  StepState loaded;
  loaded.attempted = n[0];
  loaded.applied = n[1];
  loaded.skipped = n[2];
  loaded.consecutive_skips = n[3];
  loaded.skip = n[3] > 0;
  loaded.used_scale = static_cast<float>(v[0]);
  loaded.learning_rate = v[1];
  loaded.gradient_norm = v[2];
  loaded.clip_factor = static_cast<float>(v[3]);
  loaded.loss = v[4];
  micro_batches_ = static_cast<int>(progress[0]);
  reference_ = progress[1];
  loaded.non_finite = static_cast<std::int32_t>(progress[2]);
  loaded.loss_sum = progress[3];
  calls_ = std::move(calls);
  constexpr Index kStateBytes = sizeof(StepState), kScaleBytes = sizeof(ScaleState);
  for (const Tensor& report : reports_) {
    std::memcpy(report.raw(), &loaded, sizeof(loaded));
    backend.copy_bytes(scaler_->device_state(scale_index_), report.rows(kStateBytes, kScaleBytes));
  }
  backend.copy_bytes(reports_[0].rows(0, kStateBytes), state_);
  backend.synchronize();
  unscaled_ = false;
  marks_ = {backend.mark(), backend.mark()};
  attempted_ = settled_ = loaded.attempted;
  table_end_ = attempted_;  // the table is filled anew
}

}  // namespace tandem::optim
