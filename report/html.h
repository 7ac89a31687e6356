// HTML page of a report, without external resources or scripts.
#pragma once

#include <string>
#include <vector>

#include "report/exponents.h"
#include "runs/run_record.h"

namespace tandem::report {

// For one run: metrics, charts, facts. For several: a comparison with the first as baseline, overlaid charts,
// and differences between configurations. Throws UserError without a run.
std::string page_of(const std::vector<runs::RunRecord>& runs, const Exponents& exponents);

}  // namespace tandem::report
