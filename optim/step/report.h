// What the host learns of a step, and the mailbox in which it arrives.
#pragma once

#include <array>
#include <cstdint>

#include "core/step_state.h"

namespace tandem::optim {

struct StepReport {
  std::int64_t attempted = 0, applied = 0, skipped = 0;  // counts, this step included
  std::int64_t consecutive_skips = 0;
  bool skip = false;             // this step was skipped
  double learning_rate = 0.0;    // of this step, before group factors
  double loss = 0.0;             // mean over the step's samples; of several losses their sum
  double gradient_norm = 0.0;    // before clipping; NaN when not finite or not checked
  double clip_factor = 1.0;      // by norm
  double loss_scale = 1.0;       // that this step used
  double next_loss_scale = 1.0;  // of the next one; a shared scale moves later, in LossScaler::update()
  bool exhausted = false;        // the scale cannot fall further and gradients overflow still
};

// Host copies of what the last two steps left, of even and odd numbers. The device fills them in the order of
// its work, so sending and asking never wait. Steps are numbered by StepState::attempted.
class ReportMailbox {
 public:
  explicit ReportMailbox(Device device);

  // Both slots hold `state` and the scale (a ScaleState where the device has it): of the step that a run has
  // come to. Waits for the device.
  void reset(const StepState& state, const Tensor& scale);
  // Sends what the device will have in `state` (a StepState) and `scale` when it gets there, as the report of
  // step `attempted`. That of the step two before is gone then.
  void send(std::int64_t attempted, const Tensor& state, const Tensor& scale);

  // Of one of the last two steps.
  bool arrived(std::int64_t attempted) const;
  void wait_for(std::int64_t attempted) const;
  // Of one that has arrived.
  StepReport report(std::int64_t attempted) const;
  StepState state(std::int64_t attempted) const;

 private:
  static std::size_t slot_of(std::int64_t attempted) { return static_cast<std::size_t>(attempted & 1); }

  Device device_;
  std::array<Tensor, 2> slots_;  // StepState and ScaleState each
  std::array<std::uint64_t, 2> events_{};
};

}  // namespace tandem::optim
