// Counters of a module (nn::Counter) under steps whose outcome the host learns late.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nn/module.h"

namespace tandem::optim {

// What a step's forward added to each counter waits until its outcome is known, of at most two steps:
//   next = live + what waits + what the step under way has added.
class LateCounters {
 public:
  // Whether a step was skipped; absent while that is not known.
  using Outcome = std::function<std::optional<bool>(std::int64_t attempted)>;

  void watch(std::vector<nn::Counter> counters);
  const std::vector<nn::Counter>& counters() const { return counters_; }

  std::int64_t settled() const { return settled_; }  // steps whose outcome they have
  // With what the step under way has added so far; and as if it had added that.
  std::vector<std::int64_t> next() const;
  void set_next(const std::vector<std::int64_t>& values);
  // What the step under way has added so far, whatever has been settled since it began; and as if it had
  // added that.
  std::vector<std::int64_t> added() const;
  void set_added(const std::vector<std::int64_t>& values);
  // Step number `attempted` has ended: what was added since the last one waits. The outcome of the step two
  // before is known.
  void close_step(std::int64_t attempted, const Outcome& outcome);
  // Takes the outcomes in that are known, of steps up to `last`.
  void settle(std::int64_t last, const Outcome& outcome);
  // Drops what the step under way has added; every outcome is settled.
  void drop();
  // Goes on after step number `attempted`, with live and next as they are.
  void jump_to(std::int64_t attempted) { settled_ = closed_ = attempted; }

 private:
  std::vector<nn::Counter> counters_;
  std::array<std::vector<std::int64_t>, 2> waiting_;  // of even and odd steps
  std::int64_t settled_ = 0, closed_ = 0;             // steps: with an outcome; that have ended
};

}  // namespace tandem::optim
