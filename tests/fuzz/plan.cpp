// Precision plans. Accepted input is written and read again as the same plan.
#include "amp/plan/plan_file.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

namespace {

void run(Bytes input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  const amp::plan::PhasePlans plan = amp::plan::parse_plan(text, "input");
  expect(amp::plan::parse_plan(amp::plan::plan_text(plan), "again") == plan,
         "a plan is not what was written");
  expect(amp::plan::differences(plan, plan).empty(), "a plan differs from itself");
}

}  // namespace

TANDEM_FUZZ_TARGET("plan", run)

}  // namespace tandem::fuzz
