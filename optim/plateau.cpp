#include "optim/plateau.h"

#include <cmath>

namespace tandem::optim {

const options::Schema& PlateauOptions::schema() {
  static const options::Schema schema =
      options::Describe<PlateauOptions>()
          .key("factor", &PlateauOptions::factor, "factor on the learning rate at each reduction",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .key("patience", &PlateauOptions::patience, "evaluations without improvement to wait for",
               {.min = 0, .max = 1e6})
          .key("threshold", &PlateauOptions::threshold,
               "relative improvement over the best metric that counts as better",
               {.min = 0.0, .max = 1.0, .open_max = true})
          .key("min_lr", &PlateauOptions::min_lr, "lower bound on the learning rate",
               {.min = 0.0, .max = 1e6});
  return schema;
}

namespace {

bool is_better(double figure, const std::optional<double>& best, double threshold, bool greater) {
  if (!std::isfinite(figure)) return false;
  if (!best) return true;
  return greater ? figure > *best * (1.0 + threshold) : figure < *best * (1.0 - threshold);
}

}  // namespace

bool observe(PlateauState& state, const PlateauOptions& options, double figure, std::int64_t epoch,
             bool greater_is_better) {
  if (epoch <= state.epoch) return false;
  state.epoch = epoch;
  if (is_better(figure, state.best, options.threshold, greater_is_better)) {
    state.best = figure;
    state.best_epoch = epoch;
    state.stalled = 0;
    return false;
  }
  if (++state.stalled <= options.patience) return false;
  state.stalled = 0;
  state.factor *= options.factor;
  return true;
}

}  // namespace tandem::optim
