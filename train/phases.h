// Where the time of a training step goes. A reading costs some tens of nanoseconds; on an asynchronous device
// a phase is the time of the host, unless the timer waits for the device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "core/backend.h"

namespace tandem::train {

enum class Phase : std::uint8_t { data, forward, loss, backward, update };

inline constexpr std::array<const char*, 5> kPhaseNames = {"data", "forward", "loss", "backward", "update"};

// Told when a phase begins and ends on the host.
class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  virtual void begin(Phase) = 0;
  virtual void end(Phase) = 0;  // also of a phase whose beginning was not told
};

class PhaseTimer {
 public:
  using Clock = std::chrono::steady_clock;

  // nullptr: nobody.
  void set_observer(PhaseObserver* observer) { observer_ = observer; }
  // For the observer only: the time counts from the last start or finish all the same.
  void begin(Phase phase) {
    if (observer_) observer_->begin(phase);
  }
  // Lets a phase end when the device has done its work; for measurements, since it keeps the device waiting.
  void wait_for(Backend& backend) { backend_ = &backend; }
  // The next phase starts now.
  void start() { last_ = Clock::now(); }
  // What passed since the last start or finish belongs to `phase`.
  void finish(Phase phase) {
    if (observer_) observer_->end(phase);
    if (backend_) backend_->synchronize();
    const auto now = Clock::now();
    seconds_[static_cast<std::size_t>(phase)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  double seconds(Phase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  double total() const {
    double sum = 0.0;
    for (const double seconds : seconds_) sum += seconds;
    return sum;
  }
  void clear() { seconds_ = {}; }

 private:
  Backend* backend_ = nullptr;
  PhaseObserver* observer_ = nullptr;
  Clock::time_point last_ = Clock::now();
  std::array<double, kPhaseNames.size()> seconds_{};
};

}  // namespace tandem::train
