// Time of a training step by stage. A reading takes some tens of nanoseconds. On an asynchronous device, a
// stage's time is that of the host, unless the timer waits for the device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "core/backend.h"

namespace tandem::train {

enum class Stage : std::uint8_t { data, forward, loss, backward, update };

inline constexpr std::array<const char*, 5> kStageNames = {"data", "forward", "loss", "backward", "update"};

// Observer of the beginnings and ends of stages on the host.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  virtual void begin(Stage) = 0;
  virtual void end(Stage) = 0;  // also without a begin()
};

class StageTimer {
 public:
  using Clock = std::chrono::steady_clock;

  // nullptr: none.
  void set_observer(StageObserver* observer) { observer_ = observer; }
  // Only calls the observer; time is counted from the last start() or finish().
  void begin(Stage stage) {
    if (observer_) observer_->begin(stage);
  }
  // Makes finish() wait for the device; only for measurements, since the device then idles.
  void wait_for(Backend& backend) { backend_ = &backend; }
  void start() { last_ = Clock::now(); }
  // Adds the time since the last start() or finish() to `stage`.
  void finish(Stage stage) {
    if (observer_) observer_->end(stage);
    if (backend_) backend_->synchronize();
    const auto now = Clock::now();
    seconds_[static_cast<std::size_t>(stage)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  double seconds(Stage stage) const { return seconds_[static_cast<std::size_t>(stage)]; }
  double total() const {
    double sum = 0.0;
    for (const double seconds : seconds_) sum += seconds;
    return sum;
  }
  void clear() { seconds_ = {}; }

 private:
  Backend* backend_ = nullptr;
  StageObserver* observer_ = nullptr;
  Clock::time_point last_ = Clock::now();
  std::array<double, kStageNames.size()> seconds_{};
};

}  // namespace tandem::train
