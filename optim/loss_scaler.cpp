#include "optim/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/backend.h"
#include "core/error.h"

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

std::string name_of_scale(const char* what, int index) {
  return index == 0 ? fmt::format("scaler.{}", what) : fmt::format("scaler.{}.{}", what, index);
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
  require(index >= 0 && index < count(), "scaler", "there are {} scales, asked for number {}", count(),
          index);
  const Tensor state = device_state(index);
  return Tensor::over(state.storage(), state.offset() + offsetof(ScaleState, value), Shape{}, DType::f32);
}

ScaleState LossScaler::state_of(int index) const {
  require(index >= 0 && index < count(), "scaler", "there are {} scales, asked for number {}", count(),
          index);
  const Tensor host = device_ == Device{} ? device_state(index) : device_state(index).to(Device{});
  backend_for(device_).synchronize();
  ScaleState state;
  std::memcpy(&state, host.raw(), sizeof(state));
  return state;
}

void LossScaler::set(double scale, int index) {
  require(index >= 0 && index < count(), "scaler", "there are {} scales, asked for number {}", count(),
          index);
  ScalerOptions changed = options_;
  changed.initial = scale;
  check(changed);
  write(initial_state(options_, scale), device_state(index));
}

void LossScaler::move_scales() {
  Backend& backend = backend_for(device_);
  for (const Tensor& state : states_) backend.update_scale(rules_, state);
}

void LossScaler::end_iteration() {
  ++iteration_;
  applied_ = 0;
}

void LossScaler::update() {
  require(attached_ > 0, "scaler",
          "update() of a scaler that no step uses: give it as StepOptions::shared_scaler");
  require(applied_ > 0, "scaler",
          "update() without an apply() since the last one: no gradients were checked, so nothing is known to "
          "move "
          "the scale by");
  move_scales();
  end_iteration();
}

std::vector<NamedTensor> LossScaler::state() const {
  std::vector<NamedTensor> named;
  for (int i = 0; i < count(); ++i) {
    const ScaleState s = state_of(i);
    named.emplace_back(
        name_of_scale("counters", i),
        Tensor::from(std::vector<std::int64_t>{s.clean, s.hysteresis_left, s.exhausted, s.since_change,
                                               s.overflows, s.estimates, s.found, s.forward_non_finite},
                     {kCounters}));
    named.emplace_back(
        name_of_scale("values", i),
        Tensor::from(std::vector<double>{static_cast<double>(s.value), static_cast<double>(s.staged), s.mean,
                                         s.slow_mean, s.square, s.amax},
                     {kValues}));
  }
  return named;
}

void LossScaler::load_state(const std::vector<NamedTensor>& state) {
  require(state.size() == 2 * states_.size(), "scaler",
          "the state holds {} tensors, expected {} for {} scales", state.size(), 2 * states_.size(), count());
  std::vector<ScaleState> loaded(states_.size());
  const auto take = [&](const std::string& name, DType dtype, Index size) -> const Tensor& {
    for (const auto& [given, tensor] : state) {
      if (given != name) continue;
      require(tensor.defined() && tensor.dtype() == dtype && tensor.numel() == size, "scaler",
              "{} is {}, expected {} elements of {}", name, to_string(tensor), size, tandem::name_of(dtype));
      return tensor;
    }
    throw UserError("scaler", fmt::format("the state lacks {}", name));
  };
  for (int i = 0; i < count(); ++i) {
    const auto n = take(name_of_scale("counters", i), DType::i64, kCounters).to_vector<std::int64_t>();
    const auto v = take(name_of_scale("values", i), DType::f64, kValues).to_vector<double>();
    const bool counts = std::ranges::all_of(n, [](std::int64_t count) { return count >= 0; }) &&
                        std::max({n[1], n[2], n[6], n[7]}) <= INT32_MAX;
    const auto is_scale = [](double scale) {
      return std::isfinite(static_cast<float>(scale)) && scale > 0.0;
    };
    require(counts && is_scale(v[0]) && is_scale(v[1]), "scaler",
            "the state of scale {} is damaged: a scale of {}, next {}, or a count that cannot be", i, v[0],
            v[1]);
    ScaleState& s = loaded[static_cast<std::size_t>(i)];
    s.clean = n[0];
    s.hysteresis_left = static_cast<std::int32_t>(n[1]);
    s.exhausted = static_cast<std::int32_t>(n[2]);
    s.since_change = n[3];
    s.overflows = n[4];
    s.estimates = n[5];
    s.found = static_cast<std::int32_t>(n[6]);
    s.forward_non_finite = static_cast<std::int32_t>(n[7]);
    s.value = static_cast<float>(v[0]);
    s.staged = static_cast<float>(v[1]);
    s.mean = v[2];
    s.slow_mean = v[3];
    s.square = v[4];
    s.amax = v[5];
  }
  for (std::size_t i = 0; i < loaded.size(); ++i) write(loaded[i], states_[i]);
}

}  // namespace tandem::optim
