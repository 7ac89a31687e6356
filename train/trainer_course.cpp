// What evaluations make of a run's course: a lower learning rate where they stall, and averages of the
// weights.
#include <cmath>

#include "train/trainer_session.h"

namespace tandem::train {

namespace {

// "divided by 4", "times 0.3"
std::string lowered_by(double factor) {
  const double whole = std::round(1.0 / factor);
  const bool divides = std::abs(whole * factor - 1.0) < 1e-9;
  return divides ? fmt::format("divided by {:g}", whole) : fmt::format("times {:g}", factor);
}

}  // namespace

// By what an evaluation after a whole epoch says of the figure that chooses the best one.
void Trainer::take_figure(Session& session, double figure) {
  runs::RunState& state = session.state;
  const std::string key = config_.best(), split = task_->validation_split();
  const bool greater = tasks::kind_of(config::metrics(config_), key).greater_is_better;
  if (const auto& plateau = config_.schedule.plateau;
      plateau && optim::observe(state.plateau, *plateau, figure, state.epoch, greater)) {
    set_rate_factor(state);
    const std::string since = state.plateau.best_epoch > 0
                                  ? fmt::format("since epoch {}", state.plateau.best_epoch)
                                  : "so far: it is not finite";
    session.say(fmt::format("learning rate {}: {} {} has not improved {}", lowered_by(plateau->factor), split,
                            key, since));
  }
  if (config_.asgd && optim::observe(state.averaging, *config_.asgd, figure, state.epoch, greater)) {
    learners_->begin_averages();
    session.tensors_at = -1;
    session.say(fmt::format(
        "from here on the mean of the weights is evaluated and saved: {} {} is worse than the best of all "
        "but the last {} evaluations",
        split, key, config_.asgd->patience));
  }
}

void Trainer::set_rate_factor(const runs::RunState& state) {
  if (const auto& plateau = config_.schedule.plateau)
    learners_->set_rate_factor({.factor = state.plateau.factor, .least = plateau->min_lr});
}

}  // namespace tandem::train
