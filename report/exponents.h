// Exponents of a run's gradients, and the effect of FP16 on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/panels.h"

namespace tandem::report {

// Exponents of gradients for the histogram, or the reason if there are none.
struct Exponents {
  std::string source;  // "weight gradients of step 1200", for the caption
  std::vector<plot::HistogramSeries> series;
  std::vector<std::string> facts;  // effects of FP16, one sentence each
  std::string missing;             // the reason; empty if there are series
};

// "Without a loss scale FP16 rounds 12 % of the non-zero values to zero. A scale of 2^8 keeps 99.9 % of
// them."
std::string flushed_text(std::int64_t flushed, double non_zero, std::optional<int> saving_scale);

// Exponents that runs recorded at their last evaluation; `missing` is set if there are none.
Exponents recorded_exponents(const std::vector<runs::RunRecord>& runs,
                             const std::vector<std::string>& labels);

Panel exponents_panel(const Exponents& exponents);

}  // namespace tandem::report
