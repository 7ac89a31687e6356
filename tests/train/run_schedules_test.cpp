// Times of evaluations and saves, and the effect of a metric.
#include "train/run_schedules.h"

#include <limits>

#include "tests/support/errors.h"

using namespace tandem;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

runs::RunState after(std::int64_t epoch, std::optional<double> best = {}) {
  runs::RunState state;
  state.epoch = epoch;
  state.best = best;
  return state;
}

}  // namespace

TEST_CASE("something is due after every so many epochs, and after the last", "[schedules]") {
  struct Row {
    std::int64_t epoch, every;
    bool last, due;
  };
  for (const Row& row : {Row{1, 1, false, true},
                         {2, 3, false, false},
                         {3, 3, false, true},
                         {4, 3, false, false},
                         {4, 3, true, true},
                         {1, 0, false, false},
                         {7, 0, true, true}}) {
    INFO(row.epoch << " every " << row.every << (row.last ? ", last" : ""));
    CHECK(train::due_after(row.epoch, row.every, row.last) == row.due);
  }
}

TEST_CASE("a multiple that retries have skipped counts as passed", "[schedules]") {
  struct Row {
    std::int64_t every, from, now;
    bool passed;
  };
  for (const Row& row : {Row{5, 0, 4, false},
                         {5, 4, 5, true},
                         {5, 5, 5, false},
                         {5, 5, 9, false},
                         {5, 8, 12, true},
                         {5, 9, 20, true},
                         {1, 3, 4, true},
                         {0, 0, 100, false}}) {
    INFO("multiples of " << row.every << " from " << row.from << " to " << row.now);
    CHECK(train::passes_multiple(row.from, row.now, row.every) == row.passed);
  }
}

TEST_CASE("a figure is the best one when it is finite and better", "[schedules]") {
  struct Row {
    std::optional<double> best;
    double figure;
    bool greater, less;  // whether it is the best where greater, or smaller, is better
  };
  for (const Row& row : {Row{{}, 0.5, true, true},
                         {{}, kNan, true, true},
                         {0.5, 0.6, true, false},
                         {0.5, 0.4, false, true},
                         {0.5, 0.5, false, false},
                         {0.5, kNan, false, false},
                         {0.5, kInfinity, false, false},
                         {kNan, 0.1, true, true},
                         {kNan, kNan, false, false},
                         {-kInfinity, 0.1, true, true}}) {
    INFO((row.best ? *row.best : -1.0) << " " << row.figure);
    CHECK(train::FigureRules{.greater_is_better = true}.is_best(after(2, row.best), row.figure) ==
          row.greater);
    CHECK(train::FigureRules{.greater_is_better = false}.is_best(after(2, row.best), row.figure) == row.less);
  }
}

TEST_CASE("a figure lowers the rate and begins averages once an epoch", "[schedules]") {
  const train::FigureRules rules{.greater_is_better = false,
                                 .plateau = optim::PlateauOptions{.factor = 0.5},
                                 .averaging = optim::AveragingOptions{.patience = 1}};
  struct Row {
    std::int64_t epoch;
    double figure;
    bool lowers, begins;
    double factor;
  };
  runs::RunState state;
  for (const Row& row : {Row{1, 3.0, false, false, 1.0},
                         {2, 2.0, false, false, 1.0},
                         {3, 2.5, true, false, 0.5},
                         {3, 9.0, false, false, 0.5},
                         {4, 2.6, true, true, 0.25},
                         {5, 2.7, true, false, 0.125},
                         {6, 1.0, false, false, 0.125}}) {
    INFO("epoch " << row.epoch << ", " << row.figure);
    state.epoch = row.epoch;
    CHECK(rules.lowers_rate(state, row.figure) == row.lowers);
    CHECK(rules.begins_averages(state, row.figure) == row.begins);
    CHECK(state.plateau.factor == row.factor);
  }
  runs::RunState plain = after(3);
  CHECK_FALSE(train::FigureRules{}.lowers_rate(plain, 1.0));
  CHECK_FALSE(train::FigureRules{}.begins_averages(plain, 1.0));
}

TEST_CASE("an epoch begins with nothing of the one before it", "[schedules]") {
  runs::RunState state = after(3, 0.5);
  state.position = 40;
  state.epoch_losses = {1.0, 2.0};
  state.epoch_samples = 40.0;
  train::begin_next_epoch(state);
  CHECK(state.epoch == 4);
  CHECK(state.position == 0);
  CHECK(state.epoch_losses == std::vector<double>{0.0, 0.0});
  CHECK(state.epoch_samples == 0.0);
  CHECK(state.best == 0.5);
}
