// When averaging begins: at the first evaluation that is worse than the best of all but the last few before
// it (the non-monotonic trigger of AWD-LSTM: Merity, Keskar and Socher, "Regularizing and optimizing LSTM
// language models", ICLR 2018).
#pragma once

#include <cstdint>
#include <vector>

#include "core/options/schema.h"

namespace tandem::optim {

struct AveragingOptions {
  std::int64_t patience = 5;  // evaluations that the best is not looked for among
  static const options::Schema& schema();
};

struct AveragingState {
  std::vector<double> figures{};  // of the evaluations so far, until it begins; NaN where one was not finite
  std::int64_t epoch = 0;         // of the last evaluation that counted
  std::int64_t begun = 0;         // the epoch whose evaluation began it; 0: it has not
};

// What becomes of `state` with the figure of an evaluation after `epoch`; whether averaging begins now. An
// epoch counts once, as with a plateau. A figure that is not finite begins nothing.
bool observe(AveragingState& state, const AveragingOptions& options, double figure, std::int64_t epoch,
             bool greater_is_better);

}  // namespace tandem::optim
