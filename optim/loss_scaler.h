// LossScaler: the loss scales of a training loop, in device memory.
//
// A Step has its own scaler and updates it in apply(). Several steps (the two networks of a GAN) share one:
//
//   optim::LossScaler scaler(optim::ScalerOptions::dynamic());
//   optim::Step critic(*c, {&adam_c}, {.shared_scaler = &scaler});
//   optim::Step generator(*g, {&adam_g}, {.shared_scaler = &scaler});
//   critic.backward(loss_c);     critic.apply();
//   generator.backward(loss_g);  generator.apply();
//   scaler.update();             // once an iteration, after the last apply()
//
// Each step is skipped on its own; the scale falls when any of them overflowed.
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
  // Number of scales: 1, one per loss, or one per step so far.
  int count() const { return static_cast<int>(states_.size()); }

  // A scale in device memory: a detached f32 scalar, the seed of backward. It changes in update().
  Tensor scale(int index = 0) const;
  // The value and the whole state of a scale; both synchronise.
  double value(int index = 0) const { return static_cast<double>(state_of(index).value); }
  ScaleState state_of(int index = 0) const;
  // The ScaleState in device memory.
  const Tensor& device_state(int index = 0) const;
  // Repairs scaled gradients when the options ask for it (FloorAction::sanitize).
  void repair(const Tensor& gradients, std::span<const UpdateRange> ranges, int index = 0) const;
  // Sets a scale (a power of two) and resets its counters.
  void set(double scale, int index = 0);

  // Whether a step was applied since the last update.
  bool awaits_update() const { return applied_ > 0; }
  // Ends an iteration: the results of its steps move the scales. Throws UserError when no step was applied
  // since the last update.
  void update();

  // State for resuming with the same scales, under names that begin with `prefix` and "scaler.". load_state
  // reads only those names and begins an iteration. It throws UserError, with nothing changed, when names or
  // sizes differ or a value is one that no scaler reaches.
  std::vector<NamedTensor> state(std::string_view prefix = {}) const;
  void load_state(const std::vector<NamedTensor>& state, std::string_view prefix = {});

 private:
  friend class Step;
  int attach();                              // registers a step; returns the index of its scale
  void detach();                             // removes the last attached step, whose construction failed
  void move_scales();                        // device side of update()
  void end_iteration();                      // host side of update()
  void forget_gathered();                    // discards results since the last update
  void forget_losses(int count, int index);  // removes `count` non-finite losses
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
