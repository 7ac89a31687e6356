#include "optim/step/saved_state.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/names.h"

namespace tandem::optim {

std::vector<NamedTensor> named(const StepState& s) {
  return {
      {kStepCounters,
       Tensor::from(std::vector<std::int64_t>{s.attempted, s.applied, s.skipped, s.consecutive_skips}, {4})},
      {kStepValues,
       Tensor::from(std::vector<double>{static_cast<double>(s.used_scale), s.learning_rate, s.gradient_norm,
                                        static_cast<double>(s.clip_factor), s.loss},
                    {5})}};
}

StepState step_state(const Tensor& counters, const Tensor& values, const std::string& name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const std::vector<std::int64_t> n = counters.to_vector<std::int64_t>();
  const std::vector<double> v = values.to_vector<double>();
  const bool counts = std::ranges::all_of(n, [](std::int64_t count) { return count >= 0 && count <= kMost; });
  require(counts && n[1] + n[2] == n[0] && n[3] <= n[2], "state",
          "{} is damaged: {} attempted, {} applied, {} skipped, {} in a row", name, n[0], n[1], n[2], n[3]);
  StepState state;
  state.attempted = n[0];
  state.applied = n[1];
  state.skipped = n[2];
  state.consecutive_skips = n[3];
  state.skip = n[3] > 0;
  state.used_scale = static_cast<float>(v[0]);
  state.learning_rate = v[1];
  state.gradient_norm = v[2];
  state.clip_factor = static_cast<float>(v[3]);
  state.loss = v[4];
  return state;
}

GivenState::GivenState(const std::vector<NamedTensor>& state, std::string_view prefix) : prefix_(prefix) {
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with(prefix)) continue;
    const bool fresh = tensors_.emplace(name.substr(prefix.size()), tensor).second;
    require(fresh, "state", "the name {} occurs twice", name);
  }
}

const Tensor* GivenState::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void GivenState::check_fit(const std::vector<NamedTensor>& targets) const {
  std::vector<std::string> missing, unexpected;
  std::set<std::string_view> known;
  for (const auto& [name, target] : targets) {
    known.insert(name);
    const Tensor* const tensor = find(name);
    if (!tensor) {
      missing.push_back(prefix_ + name);
      continue;
    }
    require(tensor->defined() && tensor->shape() == target.shape() && tensor->dtype() == target.dtype(),
            "state", "{}{} is {}, expected {}", prefix_, name, to_string(*tensor), to_string(target));
  }
  for (const auto& [name, tensor] : tensors_) {
    if (!known.contains(name)) unexpected.push_back(prefix_ + name);
  }
  std::ranges::sort(unexpected);
  require(missing.empty() && unexpected.empty(), "state",
          "the state was saved for another model or optimizer: {} missing ({}), {} unexpected ({})",
          missing.size(), listed(missing), unexpected.size(), listed(unexpected));
}

std::vector<NamedTensor> with_prefix(std::vector<NamedTensor> state, std::string_view prefix) {
  for (NamedTensor& named : state) named.first.insert(0, prefix);
  return state;
}

}  // namespace tandem::optim
