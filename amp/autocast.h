// Autocast: the scope of mixed precision.
//
//   amp::Autocast autocast(amp::Precision::amp_fp16());
//   Tensor loss = cross_entropy((*model)(images), labels);
//
// Scopes nest, the innermost counts, and an exception restores the outer state. They are per thread: a new
// thread starts without one. backward() runs outside of any scope and repeats the dtypes of forward. f64 and
// integers are never cast.
//
// Parameters are cast once per change of their master, not once per use (working_copy in autograd/leaf.h).
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>

#include "amp/precision.h"
#include "autograd/observers.h"
#include "nn/module.h"

namespace tandem::amp {

// Replaces each floating input that is not `keep` and has another dtype than `to` by convert(input).
template <class Convert>
void convert_inputs(const OpInfo& info, std::span<Tensor> inputs, DType to, Convert&& convert) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool kept = i < info.roles.size() && info.roles[i] == Role::keep;
    if (inputs[i].defined() && !kept && is_floating(inputs[i].dtype()) && inputs[i].dtype() != to)
      inputs[i] = convert(inputs[i]);
  }
}

// Policy of a Precision with the rule of each op looked up. Rules:
//   lower:    `data` inputs are cast to the 16-bit type; the result has it too.
//   fp32:     inputs unchanged, f32 result.
//   widest:   inputs unchanged, the result has their widest dtype; f16 with bf16 gives f32.
//   neutral:  the result has the dtype of the inputs; from O2 on f32 inputs are first cast to the 16-bit
//   type.
//   banned:   throws UserError with advice when an input is, or would become, 16-bit.
class CastPolicy final : public PrecisionPolicy {
 public:
  // Throws as check(precision).
  explicit CastPolicy(const Precision& precision);

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override;
  DType for_product(const OpInfo& info, DType given) const override;
  CastRule rule_of(const OpInfo& info) const;

 private:
  Tensor lowered(const Tensor& tensor) const;
  void round_parameters(const OpInfo& info, std::span<Tensor> inputs) const;

  Level level_;
  DType dtype_;
  bool round_weight_gradients_;
  bool lower_batch_norm_;
  std::unordered_map<const OpInfo*, CastRule> moved_;
};

// Modules of a model with their own precision. Valid as long as the model.
class LayerPolicies {
 public:
  // Throws UserError when a rule matches no layer.
  LayerPolicies(const Precision& precision, nn::Module& model);

  struct Layer {
    std::shared_ptr<PrecisionPolicy> policy;
    bool widens_gradients = false;  // see WideGradients
  };

  bool empty() const { return layers_.empty(); }
  // nullptr: no own precision.
  const Layer* find(const nn::Module& module) const;

 private:
  std::unordered_map<const nn::Module*, Layer> layers_;
};

class PlannedTypes;  // amp/planned_policy.h
class PlannedPolicy;

// A policy for many scopes, resolved once, e.g. by a training loop.
class ResolvedPrecision {
 public:
  explicit ResolvedPrecision(const Precision& precision);
  ResolvedPrecision(const Precision& precision, nn::Module& model);  // with layer rules
  // The types that the planner decided per op.
  explicit ResolvedPrecision(std::shared_ptr<const PlannedTypes> types);

 private:
  friend class Autocast;
  std::unique_ptr<CastPolicy> policy_;  // absent at O0
  std::unique_ptr<LayerPolicies> layers_;
  std::shared_ptr<const PlannedTypes> types_;  // replaces both
};

class Autocast {
 public:
  // Throws UserError when `precision` has layer rules, which need the model.
  explicit Autocast(const Precision& precision);
  Autocast(const Precision& precision, nn::Module& model);
  // `resolved` must outlive the scope. `phase`: index of the task's phase (tasks/task.h) for a precision plan
  // with several; any value outside training. Throws UserError when the plan lacks it.
  explicit Autocast(const ResolvedPrecision& resolved, std::size_t phase = 0);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // Call after the loss of a training forward: throws UserError when the forward has not reached all ops of
  // the precision plan.
  void finish() const;

  // No casts inside, for a part that needs full precision.
  static Autocast off() { return Autocast(Precision::fp32()); }

 private:
  class LayerSwitch;
  void enter(const ResolvedPrecision& resolved, std::size_t phase = 0);

  std::unique_ptr<ResolvedPrecision> own_;
  std::unique_ptr<PlannedPolicy> planned_;
  std::unique_ptr<PrecisionScope> scope_;
  std::unique_ptr<LayerSwitch> layers_;
};

}  // namespace tandem::amp
