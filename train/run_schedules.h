// Schedules of a run: when it is evaluated, logged and saved, and what a figure makes of it. Functions of the
// state of the run alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "runs/checkpoints.h"

namespace tandem::train {

// Whether a count that went from `before` to `now` came to a multiple or passed one: a step that is retried
// is attempted several times. `every` 0: there are none.
inline bool passes_multiple(std::int64_t before, std::int64_t now, std::int64_t every) {
  return every > 0 && now / every > before / every;
}

// Whether something is due after an epoch. `every` 0: after the last one alone.
inline bool due_after(std::int64_t epoch, std::int64_t every, bool last) {
  return last || (every > 0 && epoch % every == 0);
}

inline void begin_next_epoch(runs::RunState& state) {
  ++state.epoch;
  state.position = 0;
  state.epoch_losses.assign(state.epoch_losses.size(), 0.0);
  state.epoch_samples = 0.0;
}

// What a figure of checkpoint.best, measured after state.epoch, makes of a run.
struct FigureRules {
  bool greater_is_better = true;
  std::optional<optim::PlateauOptions> plateau{};
  std::optional<optim::AveragingOptions> averaging{};

  // Better than state.best. A figure that is not finite is better than none, and no other.
  bool is_best(const runs::RunState& state, double figure) const {
    if (!state.best) return true;
    if (!std::isfinite(figure)) return false;
    if (!std::isfinite(*state.best)) return true;
    return greater_is_better ? figure > *state.best : figure < *state.best;
  }
  // After a whole epoch, each of which counts once: whether state.plateau lowers the learning rate, and
  // whether the averages of the weights begin.
  bool lowers_rate(runs::RunState& state, double figure) const {
    return plateau && optim::observe(state.plateau, *plateau, figure, state.epoch, greater_is_better);
  }
  bool begins_averages(runs::RunState& state, double figure) const {
    return averaging && optim::observe(state.averaging, *averaging, figure, state.epoch, greater_is_better);
  }
};

}  // namespace tandem::train
