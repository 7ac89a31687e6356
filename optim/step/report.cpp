#include "optim/step/report.h"

#include <cstring>

#include "core/backend.h"

namespace tandem::optim {

namespace {
constexpr Index kStateBytes = sizeof(StepState), kScaleBytes = sizeof(ScaleState);
}

ReportMailbox::ReportMailbox(Device device) : device_(device) {
  for (Tensor& slot : slots_) slot = transfer_memory({kStateBytes + kScaleBytes}, DType::u8, device);
}

void ReportMailbox::reset(const StepState& state, const Tensor& scale) {
  Backend& backend = backend_for(device_);
  for (const Tensor& slot : slots_) {
    std::memcpy(slot.raw(), &state, sizeof(state));
    backend.copy_bytes(scale, slot.rows(kStateBytes, kScaleBytes));
  }
  backend.synchronize();
  events_ = {backend.record_event(), backend.record_event()};
}

void ReportMailbox::send(std::int64_t attempted, const Tensor& state, const Tensor& scale) {
  Backend& backend = backend_for(device_);
  const std::size_t slot = slot_of(attempted);
  backend.copy_bytes(state, slots_[slot].rows(0, kStateBytes));
  backend.copy_bytes(scale, slots_[slot].rows(kStateBytes, kScaleBytes));
  events_[slot] = backend.record_event();
}

bool ReportMailbox::arrived(std::int64_t attempted) const {
  return backend_for(device_).event_done(events_[slot_of(attempted)]);
}

void ReportMailbox::wait_for(std::int64_t attempted) const {
  backend_for(device_).wait_event(events_[slot_of(attempted)]);
}

StepState ReportMailbox::state(std::int64_t attempted) const {
  StepState state;
  std::memcpy(&state, slots_[slot_of(attempted)].raw(), sizeof(state));
  return state;
}

StepReport ReportMailbox::report(std::int64_t attempted) const {
  const StepState s = state(attempted);
  ScaleState scale;
  std::memcpy(&scale, slots_[slot_of(attempted)].data<std::uint8_t>() + kStateBytes, sizeof(scale));
  return {.attempted = s.attempted,
          .applied = s.applied,
          .skipped = s.skipped,
          .consecutive_skips = s.consecutive_skips,
          .skip = s.skip != 0,
          .learning_rate = s.learning_rate,
          .loss = s.loss,
          .gradient_norm = s.gradient_norm,
          .clip_factor = static_cast<double>(s.clip_factor),
          .loss_scale = static_cast<double>(s.used_scale),
          .next_loss_scale = static_cast<double>(scale.value),
          .exhausted = scale.exhausted != 0};
}

}  // namespace tandem::optim
