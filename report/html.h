// A report as one HTML page: nothing is fetched, nothing is executed.
#pragma once

#include <string>
#include <vector>

#include "report/exponents.h"
#include "runs/run_record.h"

namespace tandem::report {

// One run: figures, charts, facts. Several: the comparison with the first as the baseline, overlaid charts,
// and what their configurations differ in. Throws UserError without a run.
std::string page_of(const std::vector<runs::RunRecord>& runs, const Exponents& exponents);

}  // namespace tandem::report
