// Output of `tandem plan`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "studies/plan/planner.h"

namespace tandem::planning {

// An op that is faster in 16 bits.
struct OpLine {
  std::string op;
  std::string operands, out;  // "bf16", "f32"; operands "" unless it is a product
  double f32_ns = 0.0, low_ns = 0.0;
  std::string why;
};

struct CastLine {
  std::string of, to, how;
  int consumers = 0;
  std::int64_t bytes = 0;  // read and written, including the gradient
  std::int64_t ns = 0;
};

// Report on one phase.
struct Report {
  std::vector<OpLine> gains;   // ops in 16 bits: at most ten with the greatest gains
  std::vector<OpLine> missed;  // ops in f32 that are faster in 16 bits: at most ten, the greatest first
  std::vector<CastLine> casts;
  int casts_of_rules = 0, working_copies = 0;
  double flop_share = 0.0,
         byte_share = 0.0;  // 16-bit shares: of products' FLOP and of written bytes in forward
};

Report report_of(const PlannedPhase& phase);
// The JSON of a task with one phase has the members at the top level, others have them under "phases".
nlohmann::ordered_json to_json(const Planned& planned);
// For a terminal.
void print(const std::string& name, const Planned& planned);

}  // namespace tandem::planning
