// Report of a step, and the mailbox that carries it to the host.
#pragma once

#include <array>
#include <cstdint>

#include "core/step_state.h"

namespace tandem::optim {

struct StepReport {
  std::int64_t attempted = 0, applied = 0, skipped = 0;  // including this step
  std::int64_t consecutive_skips = 0;
  bool skip = false;             // this step was skipped
  double learning_rate = 0.0;    // of this step, before group factors
  double loss = 0.0;             // mean over the step's samples; several losses are summed
  double gradient_norm = 0.0;    // before clipping; NaN: not finite or not checked
  double clip_factor = 1.0;      // of norm clipping
  double loss_scale = 1.0;       // used by this step
  double next_loss_scale = 1.0;  // of the next step; a shared scale moves later, in LossScaler::update()
  bool exhausted = false;        // gradients still overflow at the smallest scale
};

// Host copies of the results of the last two steps (even and odd numbers). The device fills them in stream
// order, so sending and polling never wait. Steps are numbered by StepState::attempted.
class ReportMailbox {
 public:
  explicit ReportMailbox(Device device);

  // Fills both slots with `state` and the scale (a ScaleState in device memory), e.g. after loading.
  // Synchronises.
  void reset(const StepState& state, const Tensor& scale);
  // Enqueues a copy of `state` (a StepState) and `scale` as the report of step `attempted`, replacing that of
  // the step two before.
  void send(std::int64_t attempted, const Tensor& state, const Tensor& scale);

  // For one of the last two steps.
  bool arrived(std::int64_t attempted) const;
  void wait_for(std::int64_t attempted) const;
  // For a step whose report has arrived.
  StepReport report(std::int64_t attempted) const;
  StepState state(std::int64_t attempted) const;

 private:
  static std::size_t slot_of(std::int64_t attempted) { return static_cast<std::size_t>(attempted & 1); }

  Device device_;
  std::array<Tensor, 2> slots_;  // a StepState and a ScaleState each
  std::array<std::uint64_t, 2> events_{};
};

}  // namespace tandem::optim
