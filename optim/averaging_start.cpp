#include "optim/averaging_start.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::optim {

const options::Schema& AveragingOptions::schema() {
  static const options::Schema schema = options::Describe<AveragingOptions>().key(
      "patience", &AveragingOptions::patience,
      "averaging begins when an evaluation is worse than the best one before the last so many evaluations",
      {.min = 0, .max = 1e6});
  return schema;
}

bool observe(AveragingState& state, const AveragingOptions& options, double figure, std::int64_t epoch,
             bool greater_is_better) {
  if (state.begun > 0 || epoch <= state.epoch) return false;
  state.epoch = epoch;
  const auto sign = greater_is_better ? -1.0 : 1.0;
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i + static_cast<std::size_t>(options.patience) < state.figures.size(); ++i)
    if (std::isfinite(state.figures[i])) best = std::min(best, sign * state.figures[i]);
  const bool begins = std::isfinite(figure) && std::isfinite(best) && sign * figure > best;
  state.figures.push_back(std::isfinite(figure) ? figure : std::numeric_limits<double>::quiet_NaN());
  if (begins) {
    state.begun = epoch;
    state.figures.clear();
  }
  return begins;
}

}  // namespace tandem::optim
