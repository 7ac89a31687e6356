// LossScaler: the loss scales of a training loop, in device memory.
//
// A Step has one of its own and moves it in apply(). Several steps (the two networks of a GAN) share one:
//
//   optim::LossScaler scaler(optim::ScalerOptions::dynamic());
//   optim::Step critic(*c, {&adam_c}, {.shared_scaler = &scaler});
//   optim::Step generator(*g, {&adam_g}, {.shared_scaler = &scaler});
//   critic.backward(loss_c);     critic.apply();
//   generator.backward(loss_g);  generator.apply();
//   scaler.update();             // once an iteration, after the last apply()
//
// A step is skipped by itself; the scale falls when any of them overflowed.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/step_state.h"
#include "core/tensor.h"
#include "optim/scaler.h"

namespace tandem::optim {

using NamedTensor = std::pair<std::string, Tensor>;

class LossScaler {
 public:
  // Throws as check(options).
  explicit LossScaler(const ScalerOptions& options, Device device = {});
  LossScaler(const LossScaler&) = delete;
  LossScaler& operator=(const LossScaler&) = delete;

  const ScalerOptions& options() const { return options_; }
  Device device() const { return device_; }
  // How many scales there are: 1, one for each loss, or one for each step so far.
  int count() const { return static_cast<int>(states_.size()); }

  // A scale where it lives: an f32 scalar without an edge, the seed of backward. It changes in update().
  Tensor scale(int index = 0) const;
  // Its value, and everything about it; these wait for the device.
  double value(int index = 0) const { return static_cast<double>(state_of(index).value); }
  ScaleState state_of(int index = 0) const;
  // The ScaleState where it lives.
  const Tensor& device_state(int index = 0) const { return states_[static_cast<std::size_t>(index)]; }
  // Repairs gradients that carry a scale, where the options say so (FloorAction::sanitize).
  void repair(const Tensor& gradients, std::span<const UpdateRange> ranges, int index = 0) const;
  // Sets a scale, a power of two, and starts its counters anew.
  void set(double scale, int index = 0);

  // Whether a step was applied since the last update.
  bool awaits_update() const { return applied_ > 0; }
  // Ends an iteration: what the steps found since the last update moves the scales. Throws UserError when no
  // step was applied since.
  void update();

  // Everything that an interrupted run needs to go on with the same scales, under names that begin with
  // `prefix` and "scaler.". load_state looks at those alone, and begins an iteration; it throws UserError,
  // with nothing changed, when they or sizes differ or a value is one that no scaler comes to.
  std::vector<NamedTensor> state(std::string_view prefix = {}) const;
  void load_state(const std::vector<NamedTensor>& state, std::string_view prefix = {});

 private:
  friend class Step;
  int attach();                              // a step: the index of its scale
  void detach();                             // the step that was attached last, which could not be made
  void move_scales();                        // the device's part of update()
  void end_iteration();                      // the host's
  void forget_gathered();                    // what was told since the last update
  void forget_losses(int count, int index);  // of those that were not finite
  void add_scale();

  ScalerOptions options_;
  ScaleRules rules_;
  Device device_;
  std::deque<Tensor> states_;  // ScaleState each
  int attached_ = 0;
  std::int64_t iteration_ = 0;  // updates so far
  int applied_ = 0;             // steps applied in this iteration
};

}  // namespace tandem::optim
