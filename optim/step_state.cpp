// The state of a Step as named tensors: what a checkpoint keeps of it.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "core/backend.h"
#include "core/error.h"
#include "optim/names.h"
#include "optim/step.h"

namespace tandem::optim {

namespace {

constexpr const char* kCounters =
    "step.counters";  // i64: attempted, applied, skipped, clean, consecutive skips
constexpr const char* kValues =
    "step.values";  // f64: next and used loss scale, learning rate, norm, clip factor
constexpr const char* kAccumulation =
    "step.accumulation";  // f64: micro-batches, their weight, samples of the first

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

}  // namespace

StepState Step::host_state() {
  synchronize();
  StepState state;
  std::memcpy(&state, reports_[static_cast<std::size_t>(attempted_ % 2)].raw(), sizeof(state));
  return state;
}

Tensor Step::accumulation_state() const {
  return Tensor::from(std::vector<double>{static_cast<double>(micro_batches_), weight_, reference_}, {3});
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
  const StepState s = host_state();
  std::vector<NamedTensor> state = persistent_state();
  state.emplace_back(kCounters, Tensor::from(std::vector<std::int64_t>{s.attempted, s.applied, s.skipped,
                                                                       s.clean, s.consecutive_skips},
                                             {5}));
  state.emplace_back(
      kValues,
      Tensor::from(std::vector<double>{static_cast<double>(s.loss_scale), static_cast<double>(s.used_scale),
                                       s.learning_rate, s.gradient_norm, static_cast<double>(s.clip_factor)},
                   {5}));
  state.emplace_back(kAccumulation, accumulation_state());
  const auto add_count = [&](const std::string& name, std::int64_t count) {
    state.emplace_back(name, Tensor::from(std::vector<std::int64_t>{count}, {1}));
  };
  for (const nn::Counter& counter : counters_) add_count("counter." + counter.name, *counter.live);
  if (micro_batches_ > 0) {
    for (const FlatBuffers::Slot& slot : buffers_.slots()) {
      if (slot.parameter.gradient().defined())
        state.emplace_back("gradient." + slot.parameter.name(), buffers_.range(buffers_.gradients(), slot));
    }
    for (const nn::Statistic& statistic : module_.statistics())
      state.emplace_back("next_statistic." + statistic.name, statistic.next.detach());
    for (const nn::Counter& counter : counters_) add_count("next_counter." + counter.name, *counter.next);
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
  const Tensor counters = Tensor::empty({5}, {.dtype = DType::i64}),
               values = Tensor::empty({5}, {.dtype = DType::f64});
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
                            in_progress->second.numel() == 3 &&
                            in_progress->second.to_vector<double>()[0] > 0.0;
  std::vector<Parameter> with_gradient;
  if (accumulating) {
    for (const FlatBuffers::Slot& slot : buffers_.slots()) {
      if (!given.contains("gradient." + slot.parameter.name())) continue;
      with_gradient.push_back(slot.parameter);
      targets.emplace_back("gradient." + slot.parameter.name(), buffers_.range(buffers_.gradients(), slot));
    }
    for (const nn::Statistic& statistic : module_.statistics())
      targets.emplace_back("next_statistic." + statistic.name, statistic.next.detach());
    for (const nn::Counter& counter : counters_) expect_count("next_counter." + counter.name, counter.next);
  }
  check_fit(given, targets);
  const double micro_batches = given.at(kAccumulation).to_vector<double>()[0];
  require(micro_batches <= options_.accumulate, "state",
          "saved after {} micro-batches of a step, accumulate is {}", micro_batches, options_.accumulate);

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
  for (const Parameter& parameter : with_gradient) parameter.leaf().mark_written();
  if (!accumulating && statistics_.live.defined()) backend.copy_bytes(statistics_.live, statistics_.next);

  const std::int64_t* n = counters.data<std::int64_t>();
  const double* v = values.data<double>();
  StepState loaded;
  loaded.attempted = n[0];
  loaded.applied = n[1];
  loaded.skipped = n[2];
  loaded.clean = n[3];
  loaded.consecutive_skips = n[4];
  loaded.skip = n[4] > 0;
  loaded.loss_scale = static_cast<float>(v[0]);
  loaded.used_scale = static_cast<float>(v[1]);
  loaded.learning_rate = v[2];
  loaded.gradient_norm = v[3];
  loaded.clip_factor = static_cast<float>(v[4]);
  const double* a = accumulation.data<double>();
  micro_batches_ = static_cast<int>(a[0]);
  weight_ = a[1];
  reference_ = a[2];
  for (const Tensor& report : reports_) std::memcpy(report.raw(), &loaded, sizeof(loaded));
  backend.copy_bytes(reports_[0], state_);
  marks_ = {backend.mark(), backend.mark()};
  attempted_ = settled_ = loaded.attempted;
  table_end_ = attempted_;  // the table is filled anew
}

}  // namespace tandem::optim
