// Module counters (nn::Counter) under steps whose outcome the host learns late.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nn/module.h"

namespace tandem::optim {

// Increments of a step's forward are pending until its outcome is known; at most two steps are pending:
//   next = live + pending + increments of the current step.
class LateCounters {
 public:
  // Whether a step was skipped; absent while unknown.
  using Outcome = std::function<std::optional<bool>(std::int64_t attempted)>;

  void watch(std::vector<nn::Counter> counters);
  const std::vector<nn::Counter>& counters() const { return counters_; }

  std::int64_t settled() const { return settled_; }  // steps with a known outcome
  // Reads and sets the values including the current step's increments.
  std::vector<std::int64_t> next() const;
  void set_next(const std::vector<std::int64_t>& values);
  // Reads and sets the current step's increments, independent of steps settled meanwhile.
  std::vector<std::int64_t> added() const;
  void set_added(const std::vector<std::int64_t>& values);
  // Ends step number `attempted`: its increments become pending. The outcome of the step two before must be
  // known.
  void close_step(std::int64_t attempted, const Outcome& outcome);
  // Settles the steps up to `last` whose outcome is known.
  void settle(std::int64_t last, const Outcome& outcome);
  // Drops the current step's increments; every outcome is settled.
  void drop();
  // Continues after step number `attempted`, keeping live and next.
  void jump_to(std::int64_t attempted) { settled_ = closed_ = attempted; }

 private:
  std::vector<nn::Counter> counters_;
  std::array<std::vector<std::int64_t>, 2> waiting_;  // pending increments of even and odd steps
  std::int64_t settled_ = 0, closed_ = 0;             // numbers of steps: with an outcome; ended
};

}  // namespace tandem::optim
