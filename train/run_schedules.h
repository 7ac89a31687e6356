// Schedules of a run: evaluation, logging, saves, and the effects of a new metric value. They depend only on
// the state of the run.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "runs/checkpoints.h"

namespace tandem::train {

// Whether a count reached or passed a multiple of `every` between `before` and `now`: a retried step counts
// several attempts. `every` 0: never.
inline bool passes_multiple(std::int64_t before, std::int64_t now, std::int64_t every) {
  return every > 0 && now / every > before / every;
}

// Whether an action is due after an epoch. `every` 0: only after the last one.
inline bool due_after(std::int64_t epoch, std::int64_t every, bool last) {
  return last || (every > 0 && epoch % every == 0);
}

inline void begin_next_epoch(runs::RunState& state) {
  ++state.epoch;
  state.position = 0;
  state.epoch_losses.assign(state.epoch_losses.size(), 0.0);
  state.epoch_samples = 0.0;
}

// Effects of the metric checkpoint.best, measured after state.epoch, on a run.
struct FigureRules {
  bool greater_is_better = true;
  std::optional<optim::PlateauOptions> plateau{};
  std::optional<optim::AveragingOptions> averaging{};

  // Whether it is better than state.best. A non-finite value is better only than none.
  bool is_best(const runs::RunState& state, double figure) const {
    if (!state.best) return true;
    if (!std::isfinite(figure)) return false;
    if (!std::isfinite(*state.best)) return true;
    return greater_is_better ? figure > *state.best : figure < *state.best;
  }
  // Call these after whole epochs, once each: whether state.plateau lowers the learning rate, and whether the
  // weight averages start.
  bool lowers_rate(runs::RunState& state, double figure) const {
    return plateau && optim::observe(state.plateau, *plateau, figure, state.epoch, greater_is_better);
  }
  bool begins_averages(runs::RunState& state, double figure) const {
    return averaging && optim::observe(state.averaging, *averaging, figure, state.epoch, greater_is_better);
  }
};

}  // namespace tandem::train
