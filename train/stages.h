// Where the time of a training step goes. A reading costs some tens of nanoseconds; on an asynchronous device
// a stage is the time of the host, unless the timer waits for the device.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "core/backend.h"

namespace tandem::train {

enum class Stage : std::uint8_t { data, forward, loss, backward, update };

inline constexpr std::array<const char*, 5> kStageNames = {"data", "forward", "loss", "backward", "update"};

// Told when a stage begins and ends on the host.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  virtual void begin(Stage) = 0;
  virtual void end(Stage) = 0;  // also of a stage whose beginning was not told
};

class StageTimer {
 public:
  using Clock = std::chrono::steady_clock;

  // nullptr: nobody.
  void set_observer(StageObserver* observer) { observer_ = observer; }
  // For the observer only: the time counts from the last start or finish all the same.
  void begin(Stage stage) {
    if (observer_) observer_->begin(stage);
  }
  // Lets a stage end when the device has done its work; for measurements, since it keeps the device waiting.
  void wait_for(Backend& backend) { backend_ = &backend; }
  // The next stage starts now.
  void start() { last_ = Clock::now(); }
  // What passed since the last start or finish belongs to `stage`.
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
