// Plateau: lowers the learning rate when evaluations stop improving. A schedule is a function of applied
// steps; a plateau adds a factor that changes only at evaluations and is part of a run's state.
//
// The rule of PyTorch's ReduceLROnPlateau (threshold relative to the best metric, no cooldown). With patience
// and threshold 0 it is the rule of PyTorch's word_language_model: lower the rate after every evaluation that
// is not better than the best.
#pragma once

#include <cstdint>
#include <optional>

#include "core/options/schema.h"

namespace tandem::optim {

struct PlateauOptions {
  double factor = 0.25;
  std::int64_t patience = 0;  // evaluations without improvement to wait for
  double threshold = 0.0;     // relative improvement over the best that counts as better
  double min_lr = 0.0;        // lower bound on the rate
  static const options::Schema& schema();
};

struct PlateauState {
  std::optional<double> best{};  // absent: no finite metric yet
  std::int64_t best_epoch = 0;   // 0: none
  std::int64_t epoch = 0;        // of the last evaluation that counted
  std::int64_t stalled = 0;      // evaluations since the best, or since the rate was lowered
  double factor = 1.0;           // factor on the scheduled rate
  friend bool operator==(const PlateauState&, const PlateauState&) = default;
};

// Updates `state` with the metric after `epoch`; returns whether the factor was lowered. Each epoch counts
// once: an epoch that is not later than state.epoch changes nothing, so a resumed run may evaluate again. A
// non-finite metric never counts as better.
bool observe(PlateauState& state, const PlateauOptions& options, double figure, std::int64_t epoch,
             bool greater_is_better);

}  // namespace tandem::optim
