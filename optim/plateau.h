// Plateau: divides the learning rate where evaluations stop getting better. A schedule is a function of
// applied steps; what this adds is a factor that changes at evaluations only, and is part of a run's state.
//
// The rule of PyTorch's ReduceLROnPlateau (threshold relative to the best figure, no cooldown). With patience
// and threshold 0 it is that of its word_language_model: lower the rate at every evaluation that is no better
// than the best.
#pragma once

#include <cstdint>
#include <optional>

#include "core/options/schema.h"

namespace tandem::optim {

struct PlateauOptions {
  double factor = 0.25;
  std::int64_t patience = 0;  // evaluations without a better figure that are let pass
  double threshold = 0.0;  // a figure is better when it differs from the best by more than this share of it
  double min_lr = 0.0;     // the rate is not lowered below this one
  static const options::Schema& schema();
};

struct PlateauState {
  std::optional<double> best{};  // absent: no finite figure yet
  std::int64_t best_epoch = 0;   // of it; 0: none
  std::int64_t epoch = 0;        // of the last evaluation that counted
  std::int64_t stalled = 0;      // evaluations since the best, or since the rate was lowered
  double factor = 1.0;           // on what the schedule says
  friend bool operator==(const PlateauState&, const PlateauState&) = default;
};

// What becomes of `state` with the figure of an evaluation after `epoch`. An epoch counts once: a figure of
// one that is not later than state.epoch changes nothing, so that a run that is gone on with may evaluate
// again. A figure that is not finite is no better than any. The factor is lowered where the result says so.
bool observe(PlateauState& state, const PlateauOptions& options, double figure, std::int64_t epoch,
             bool greater_is_better);

}  // namespace tandem::optim
