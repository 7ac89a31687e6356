// Start of averaging: the first evaluation that is worse than the best of all but the last few before it (the
// non-monotonic trigger of AWD-LSTM: Merity, Keskar and Socher, "Regularizing and optimizing LSTM language
// models", ICLR 2018).
#pragma once

#include <cstdint>
#include <vector>

#include "core/options/schema.h"

namespace tandem::optim {

struct AveragingOptions {
  std::int64_t patience = 5;  // the last evaluations, excluded from the best
  static const options::Schema& schema();
};

struct AveragingState {
  std::vector<double> figures{};  // evaluations until averaging begins; NaN: not finite
  std::int64_t epoch = 0;         // of the last evaluation that counted
  std::int64_t begun = 0;         // epoch of the evaluation that began it; 0: not yet
};

// Updates `state` with the metric after `epoch`; returns whether averaging begins now. Each epoch counts
// once, as in Plateau. A non-finite metric never begins averaging.
bool observe(AveragingState& state, const AveragingOptions& options, double figure, std::int64_t epoch,
             bool greater_is_better);

}  // namespace tandem::optim
