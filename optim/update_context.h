// UpdateContext: the update of an optimizer's parameters in one step, as passed to Optimizer::update.
//
//   void SignMomentum::update(UpdateContext& context) const {
//     for (UpdatedParameter& p : context.parameters()) {
//       const Tensor momentum = lerp(p.state("momentum"), p.gradient(), 0.1);
//       p.set_state("momentum", momentum);
//       p.set_weight(p.weight() - p.lr() * sign(momentum));
//     }
//   }
//
// The device decides whether a step is applied (core/step_state.h); values that were set take effect only
// then. A skipped step keeps weights, state and counts bit for bit. In a skipped step `update` is not called
// on a CPU, but is called on a GPU with whatever the gradients hold. So it must compute with tensors, which
// can be recorded, and not read values on the host (item, to_vector). It is not taped, and no precision
// policy is active.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/step_state.h"
#include "optim/optimizer.h"

namespace tandem {
class Backend;
}

namespace tandem::optim {

// For an elementwise rule: those of UpdateBuffers.
inline constexpr std::size_t kMostMoments = 3;

// A state tensor of a parameter in the step's memory.
struct NamedState {
  std::string_view name;
  Tensor value;
};

// Data of one optimizer's update; made by the step.
struct UpdateWork {
  const Optimizer& optimizer;
  Backend& backend;
  UpdateBuffers buffers;  // flat; the last of `counts` is for calls that are not the counted update of a
                          // parameter
  double clip_value;
  const Tensor& step;                            // StepState
  std::span<const UpdateRange> ranges;           // positions in `buffers`
  std::vector<const Optimizer::Entry*> entries;  // of each range
  std::vector<std::vector<NamedState>> state;    // of each range; empty with an elementwise rule
};

// A parameter in one step. Tensors are f32 on the parameters' device; only set_state, set_weight and update
// write.
class UpdatedParameter {
 public:
  UpdatedParameter(const UpdateWork& work, std::size_t number);

  const Parameter& parameter() const { return entry_.parameter; }
  const Optimizer::Entry& entry() const { return entry_; }
  double weight_decay() const { return entry_.weight_decay; }  // including the group's

  const Tensor& weight() const { return weight_; }  // the master
  // That of the working copy, which forward uses; without one, of the master.
  DType working_dtype() const { return (working_.defined() ? working_ : weight_).dtype(); }
  Tensor gradient() const;  // unscaled, averaged and clipped; computed by each call
  Tensor lr() const;        // []: of this step, with the group's factor
  Tensor number() const;    // []: number of this update of the parameter, from 1

  // Throws UserError for a name that state_of does not declare.
  const Tensor& state(std::string_view name) const;

  // Throw UserError for a value of another shape or dtype.
  void set_state(std::string_view name, const Tensor& value);
  // Counts the update once per parameter, unless update() is called.
  void set_weight(const Tensor& value);
  // The update of an elementwise rule whose moments are state tensors with the parameter's shape.
  void update(const UpdateRule& rule, std::initializer_list<std::string_view> moments);

 private:
  void check(std::string_view what, const Tensor& value, const Tensor& target) const;
  StorageRounding rounding() const;
  Index uncounted() const { return work_.buffers.counts.numel() - 1; }
  // Copies value to target.master if the step is applied.
  void assign(const Tensor& value, UpdateBuffers target, bool unscales, Index slot) const;

  const UpdateWork& work_;
  const Optimizer::Entry& entry_;
  const std::vector<NamedState>& state_;
  UpdateRange range_;  // within the parameter's own memory, from 0
  Tensor weight_, gradient_, working_;
};

class UpdateContext {
 public:
  explicit UpdateContext(const UpdateWork& work);  // kept by reference

  std::vector<UpdatedParameter>& parameters() { return parameters_; }
  // Applies an elementwise rule to all parameters in one pass.
  void update(const UpdateRule& rule);

 private:
  const UpdateWork& work_;
  std::vector<UpdatedParameter> parameters_;
};

}  // namespace tandem::optim
