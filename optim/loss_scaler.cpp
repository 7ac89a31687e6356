#include "optim/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <unordered_map>

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/update.h"

namespace tandem::optim {

namespace {

constexpr Index kCounters = 8, kValues = 6;

ScaleState initial_state(const ScalerOptions& options, double scale) {
  ScaleState state;
  state.value = state.staged = static_cast<float>(scale);
  state.hysteresis_left = options.hysteresis;
  return state;
}

void write(const ScaleState& state, const Tensor& target) {
  const Tensor host = Tensor::empty({sizeof(ScaleState)}, {.dtype = DType::u8});
  std::memcpy(host.raw(), &state, sizeof(state));
  backend_for(target.device()).copy_bytes(host, target);
  backend_for(target.device()).synchronize();
}

std::string name_of_scale(std::string_view prefix, const char* what, int index) {
  return index == 0 ? fmt::format("{}scaler.{}", prefix, what)
                    : fmt::format("{}scaler.{}.{}", prefix, what, index);
}

// Reads a saved scale from tensors of checked types and sizes. Throws UserError for values that no scaler
// reaches.
ScaleState scale_state(const Tensor& counters, const Tensor& values, int index) {
  const std::vector<std::int64_t> n = counters.to_vector<std::int64_t>();
  const std::vector<double> v = values.to_vector<double>();
  const bool counts = std::ranges::all_of(n, [](std::int64_t count) { return count >= 0; }) &&
                      std::max({n[1], n[2], n[6], n[7]}) <= INT32_MAX;
  const auto is_scale = [](double scale) { return std::isfinite(static_cast<float>(scale)) && scale > 0.0; };
  require(counts && is_scale(v[0]) && is_scale(v[1]), "scaler",
          "the state of scale {} is damaged: a scale of {}, next {}, or an impossible count", index, v[0],
          v[1]);
  ScaleState s;
  s.clean = n[0];
  s.hysteresis_left = static_cast<std::int32_t>(n[1]);
  s.exhausted = static_cast<std::int32_t>(n[2]);
  s.since_change = n[3];
  s.overflows = n[4];
  s.estimates = n[5];
  s.found_inf = static_cast<std::int32_t>(n[6]);
  s.forward_non_finite = static_cast<std::int32_t>(n[7]);
  s.value = static_cast<float>(v[0]);
  s.staged = static_cast<float>(v[1]);
  s.mean = v[2];
  s.slow_mean = v[3];
  s.square = v[4];
  s.amax = v[5];
  return s;
}

}  // namespace

LossScaler::LossScaler(const ScalerOptions& options, Device device)
    : options_(options), rules_(options.rules()), device_(device) {
  check(options);
  if (options.scope == ScalerScope::optimizer) return;
  for (int i = 0; i < options.losses; ++i) add_scale();
}

void LossScaler::add_scale() {
  const Tensor state = Tensor::zeros({sizeof(ScaleState)}, {.dtype = DType::u8, .device = device_});
  write(initial_state(options_, options_.initial), state);
  states_.push_back(state);
}

int LossScaler::attach() {
  const bool own = options_.scope == ScalerScope::optimizer;
  if (own) add_scale();
  ++attached_;
  return own ? count() - 1 : 0;
}

void LossScaler::detach() {
  --attached_;
  if (options_.scope == ScalerScope::optimizer) states_.pop_back();
}

Tensor LossScaler::scale(int index) const {
  const Tensor state = device_state(index);
  return Tensor::over(state.storage(), state.offset() + offsetof(ScaleState, value), Shape{}, DType::f32);
}

const Tensor& LossScaler::device_state(int index) const {
  require(index >= 0 && index < count(), "scaler", "there are {} scales, asked for number {}", count(),
          index);
  return states_[static_cast<std::size_t>(index)];
}

ScaleState LossScaler::state_of(int index) const {
  const Tensor host = device_ == Device{} ? device_state(index) : device_state(index).to(Device{});
  backend_for(device_).synchronize();
  ScaleState state;
  std::memcpy(&state, host.raw(), sizeof(state));
  return state;
}

void LossScaler::repair(const Tensor& gradients, std::span<const UpdateRange> ranges, int index) const {
  if (options_.floor_action != FloorAction::sanitize) return;
  backend_for(device_).update().sanitize(gradients, ranges, static_cast<float>(options_.floor),
                                         device_state(index));
}

void LossScaler::set(double scale, int index) {
  ScalerOptions changed = options_;
  changed.initial = scale;
  check(changed);
  write(initial_state(options_, scale), device_state(index));
}

void LossScaler::move_scales() {
  Backend& backend = backend_for(device_);
  for (const Tensor& state : states_) backend.update().update_scale(rules_, state);
}

void LossScaler::end_iteration() {
  ++iteration_;
  applied_ = 0;
}

void LossScaler::update() {
  require(attached_ > 0, "scaler",
          "update() on a scaler that no step uses: pass it as StepOptions::shared_scaler");
  require(applied_ > 0, "scaler",
          "update() without an apply() since the last one: no gradients were checked, so nothing is known to "
          "move "
          "the scale by");
  move_scales();
  end_iteration();
}

void LossScaler::forget_gathered() {
  for (int i = 0; i < count(); ++i) {
    ScaleState state = state_of(i);
    state.found_inf = state.forward_non_finite = 0;
    state.amax = 0.0;
    write(state, device_state(i));
  }
}

void LossScaler::forget_losses(int count, int index) {
  if (count == 0) return;
  ScaleState state = state_of(index);
  state.forward_non_finite -= count;
  write(state, device_state(index));
}

std::vector<NamedTensor> LossScaler::state(std::string_view prefix) const {
  std::vector<NamedTensor> named;
  for (int i = 0; i < count(); ++i) {
    const ScaleState s = state_of(i);
    named.emplace_back(
        name_of_scale(prefix, "counters", i),
        Tensor::from(std::vector<std::int64_t>{s.clean, s.hysteresis_left, s.exhausted, s.since_change,
                                               s.overflows, s.estimates, s.found_inf, s.forward_non_finite},
                     {kCounters}));
    named.emplace_back(
        name_of_scale(prefix, "values", i),
        Tensor::from(std::vector<double>{static_cast<double>(s.value), static_cast<double>(s.staged), s.mean,
                                         s.slow_mean, s.square, s.amax},
                     {kValues}));
  }
  return named;
}

void LossScaler::load_state(const std::vector<NamedTensor>& state, std::string_view prefix) {
  std::unordered_map<std::string_view, Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(name_of_scale(prefix, "", 0))) given.emplace(name, tensor);
  }
  require(given.size() == 2 * states_.size(), "scaler",
          "the state holds {} tensors, expected {} for {} scales", given.size(), 2 * states_.size(), count());
  const auto take = [&](const std::string& name, DType dtype, Index size) -> const Tensor& {
    const auto found = given.find(name);
    require(found != given.end(), "scaler", "the state lacks {}", name);
    const Tensor& tensor = found->second;
    require(tensor.defined() && tensor.dtype() == dtype && tensor.numel() == size, "scaler",
            "{} is {}, expected {} elements of {}", name, to_string(tensor), size, tandem::name_of(dtype));
    return tensor;
  };
  std::vector<ScaleState> loaded;
  for (int i = 0; i < count(); ++i)
    loaded.push_back(scale_state(take(name_of_scale(prefix, "counters", i), DType::i64, kCounters),
                                 take(name_of_scale(prefix, "values", i), DType::f64, kValues), i));
  for (std::size_t i = 0; i < loaded.size(); ++i) write(loaded[i], states_[i]);
  end_iteration();
}

}  // namespace tandem::optim
