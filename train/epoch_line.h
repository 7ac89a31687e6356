// The line that a run prints after an evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/metrics.h"
#include "train/progress.h"

namespace tandem::train {

struct EpochFigures {
  std::int64_t epoch = 1, epochs = 1;  // 1-based
  std::string losses;                  // training losses; "" if nothing was trained since the last line
  std::string split;
  tasks::Metrics metrics;
  std::string best;             // the metric of checkpoint.best; printed as a dash if the split has none
  std::string items = "items";  // unit of the rate, see Task::samples_are
  double items_per_s = 0.0;
  double seconds = 0.0;  // since the run started
};

// Epoch, training loss, split with its metrics (`best` first), rate, time. A narrow terminal drops parts;
// `best` stays longest, then time, training loss and loss.
std::vector<LinePart> epoch_line(const EpochFigures& figures);

}  // namespace tandem::train
