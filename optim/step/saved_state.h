// State of a step as named tensors: the reader, and its numbers.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/step_state.h"
#include "optim/loss_scaler.h"

namespace tandem::optim {

inline constexpr const char* kStepCounters =
    "step.counters";  // i64: attempted, applied, skipped, skips in a row
// f64: used loss scale, learning rate, norm, clip factor, loss
inline constexpr const char* kStepValues = "step.values";
inline constexpr const char* kStepAccumulation = "step.accumulation";  // f64, see MicroBatches::values

// The tensors `kStepCounters` and `kStepValues`.
std::vector<NamedTensor> named(const StepState& state);
// The inverse. Throws UserError for counts that no step reaches; `name` is that of the counters.
StepState step_state(const Tensor& counters, const Tensor& values, const std::string& name);

// The tensors of a state whose names begin with a prefix, with it removed. Other names are ignored; the empty
// prefix selects all.
class GivenState {
 public:
  // Throws UserError when a name occurs twice.
  GivenState(const std::vector<NamedTensor>& state, std::string_view prefix);

  const std::string& prefix() const { return prefix_; }
  const Tensor* find(const std::string& name) const;  // nullptr when absent
  const Tensor& at(const std::string& name) const { return tensors_.at(name); }
  // Throws UserError that lists missing and unexpected names, or the first tensor whose shape or dtype
  // differs from `targets`.
  void check_fit(const std::vector<NamedTensor>& targets) const;

 private:
  std::string prefix_;
  std::unordered_map<std::string, Tensor> tensors_;
};

// The same tensors with `prefix` before their names.
std::vector<NamedTensor> with_prefix(std::vector<NamedTensor> state, std::string_view prefix);

}  // namespace tandem::optim
