// What `tandem plan` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "studies/plan/planner.h"

namespace tandem::planning {

// An op whose types gain, or would.
struct OpLine {
  std::string op;
  std::string operands, out;  // "bf16", "f32"; "" where it is no product
  double f32_ns = 0.0, low_ns = 0.0;
  std::string why;
};

struct CastLine {
  std::string of, to, how;
  int consumers = 0;
  std::int64_t bytes = 0;  // read and written, with its gradient
  std::int64_t ns = 0;
};

// Of a phase.
struct Report {
  std::vector<OpLine> gains;   // in 16 bits, the greatest first, ten at most
  std::vector<OpLine> missed;  // f32 although 16 bits are faster, the greatest first, ten at most
  std::vector<CastLine> casts;
  int casts_of_rules = 0, working_copies = 0;
  double flop_share = 0.0, byte_share = 0.0;  // in 16 bits: of forward's products, of what forward writes
};

Report report_of(const PlannedPhase& phase);
// A task of one phase has its members at the top, others theirs under "phases".
nlohmann::ordered_json to_json(const Planned& planned);
// For a terminal.
void print(const std::string& name, const Planned& planned);

}  // namespace tandem::planning
