// Autocast: the scope in which ops run in mixed precision.
//
//   amp::Autocast autocast(amp::Precision::amp_fp16());
//   Tensor loss = cross_entropy((*model)(images), labels);
//
// Scopes nest, the innermost counts, and an exception restores the outer state. They are per thread: another
// thread starts without one. backward() runs outside of any scope and replays the dtypes of forward. f64 and
// integers are never touched.
//
// Parameters are cast once per change of their master, not once per use (autograd/leaf.h, working_copy).
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>

#include "amp/precision.h"
#include "autograd/observers.h"
#include "nn/module.h"

namespace tandem::amp {

// A Precision with everything looked up: the rule of each op. Of rule and result:
//   lower    `data` inputs are cast to the 16-bit type; the result has it too.
//   fp32     inputs as they are, f32 result.
//   widest   inputs as they are, the result has the widest dtype among them; f16 with bf16 gives f32.
//   neutral  the result has the dtype of the inputs, and from O2 on f32 inputs are cast to the 16-bit type
//   first. banned   UserError with advice when an input is 16-bit, or would be.
class CastPolicy final : public PrecisionPolicy {
 public:
  // Throws as check(precision).
  explicit CastPolicy(const Precision& precision);

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override;
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

// Which modules of a model run in another precision than the rest. Valid as long as the model.
class LayerPolicies {
 public:
  // Throws UserError when a rule matches no layer.
  LayerPolicies(const Precision& precision, nn::Module& model);

  struct Layer {
    std::shared_ptr<PrecisionPolicy> policy;
    bool widens_gradients = false;  // see WideGradients
  };

  bool empty() const { return layers_.empty(); }
  // nullptr: none of its own.
  const Layer* find(const nn::Module& module) const;

 private:
  std::unordered_map<const nn::Module*, Layer> layers_;
};

class PlannedTypes;  // amp/planned_policy.h
class PlannedPolicy;

// A policy made once for many scopes: what a training loop keeps.
class ResolvedPrecision {
 public:
  explicit ResolvedPrecision(const Precision& precision);
  ResolvedPrecision(const Precision& precision, nn::Module& model);  // with the rules for layers
  // What a plan of the planner decides, op by op.
  explicit ResolvedPrecision(std::shared_ptr<const PlannedTypes> types);

 private:
  friend class Autocast;
  std::unique_ptr<CastPolicy> policy_;  // absent at O0
  std::unique_ptr<LayerPolicies> layers_;
  std::shared_ptr<const PlannedTypes> types_;  // in the place of both
};

class Autocast {
 public:
  // Throws UserError when `precision` has rules for layers: they need the model.
  explicit Autocast(const Precision& precision);
  Autocast(const Precision& precision, nn::Module& model);
  // The plan must outlive the scope. `phase` counts those of a task's step (tasks/task.h), where a plan of
  // the planner has several; what is no training forward has any. Throws UserError where such a plan lacks
  // it.
  explicit Autocast(const ResolvedPrecision& plan, std::size_t phase = 0);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // After the loss of a training forward: throws UserError when a planned precision has ops left that the
  // forward did not come to.
  void finish() const;

  // No casts inside: a scope for a part that needs full precision.
  static Autocast off() { return Autocast(Precision::fp32()); }

 private:
  class LayerSwitch;
  void enter(const ResolvedPrecision& plan, std::size_t phase = 0);

  std::unique_ptr<ResolvedPrecision> own_;
  std::unique_ptr<PlannedPolicy> planned_;
  std::unique_ptr<PrecisionScope> scope_;
  std::unique_ptr<LayerSwitch> layers_;
};

}  // namespace tandem::amp
