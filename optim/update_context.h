// UpdateContext: the update of an optimizer's parameters in one step, as Optimizer::update sees it.
//
//   void SignMomentum::update(UpdateContext& context) const {
//     for (UpdatedParameter& p : context.parameters()) {
//       const Tensor momentum = lerp(p.state("momentum"), p.gradient(), 0.1);
//       p.set_state("momentum", momentum);
//       p.set_weight(p.weight() - p.lr() * sign(momentum));
//     }
//   }
//
// Whether a step is applied is decided on the device (core/step_state.h), and what is set takes effect only
// then: a skipped step leaves weights, state and counts bit for bit as they were. On a CPU `update` is not
// called in a skipped step; on a GPU it is, on whatever the gradients hold. So an update computes with
// tensors, which can be recorded, and does not ask the host for values (item, to_vector). It is not taped,
// and no precision policy is active.
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

// Of an elementwise rule: those of UpdateBuffers.
inline constexpr std::size_t kMostMoments = 3;

// The state tensor of a parameter in the step's memory.
struct NamedState {
  std::string_view name;
  Tensor value;
};

// What one optimizer's update works on; made by the step.
struct UpdateWork {
  const Optimizer& optimizer;
  Backend& backend;
  UpdateBuffers buffers;  // flat; of `counts` the last is for what is no update of a parameter
  double clip_value;
  const Tensor& step;                            // StepState
  std::span<const UpdateRange> ranges;           // by their place in `buffers`
  std::vector<const Optimizer::Entry*> entries;  // of each range
  std::vector<std::vector<NamedState>> state;  // of each range; none of an optimizer with an elementwise rule
};

// A parameter in one step. Tensors are f32, on the device of the parameters; nothing is written but by
// set_state, set_weight and update.
class UpdatedParameter {
 public:
  UpdatedParameter(const UpdateWork& work, std::size_t number);

  const Parameter& parameter() const { return entry_.parameter; }
  const Optimizer::Entry& entry() const { return entry_; }
  double weight_decay() const { return entry_.weight_decay; }  // with the group's

  const Tensor& weight() const { return weight_; }  // the master
  Tensor gradient() const;                          // unscaled, averaged and clipped; computed by each call
  Tensor lr() const;                                // []: of this step, times the group's factor
  Tensor number() const;                            // []: of this update of the parameter, from 1

  // Throws UserError for a name that state_of does not declare.
  const Tensor& state(std::string_view name) const;

  // Throw UserError for a value of another shape or dtype.
  void set_state(std::string_view name, const Tensor& value);
  // Counts the update: once for each parameter, unless update() is called.
  void set_weight(const Tensor& value);
  // The update of an elementwise rule whose moments are state tensors in the shape of the parameter.
  void update(const UpdateRule& rule, std::initializer_list<std::string_view> moments);

 private:
  void check(std::string_view what, const Tensor& value, const Tensor& target) const;
  StorageRounding rounding() const;
  Index uncounted() const { return work_.buffers.counts.numel() - 1; }
  // value → target.master where the step is applied.
  void assign(const Tensor& value, UpdateBuffers target, bool unscales, Index slot) const;

  const UpdateWork& work_;
  const Optimizer::Entry& entry_;
  const std::vector<NamedState>& state_;
  UpdateRange range_;  // of the parameter's own memory: from 0 on
  Tensor weight_, gradient_, working_;
};

class UpdateContext {
 public:
  explicit UpdateContext(const UpdateWork& work);  // kept by reference

  std::vector<UpdatedParameter>& parameters() { return parameters_; }
  // The update of an elementwise rule, in one pass over all parameters.
  void update(const UpdateRule& rule);

 private:
  const UpdateWork& work_;
  std::vector<UpdatedParameter> parameters_;
};

}  // namespace tandem::optim
