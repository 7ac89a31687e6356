// Report on the dtypes and casts of one forward pass, with the rule behind each op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amp/precision.h"
#include "studies/inspect/workbench.h"

namespace tandem::inspect {

struct CastRow {
  std::string layer;  // path of the module; "loss" outside of the model
  std::string op;
  std::string reason;  // "rule lower", "level O2", "lists.deny", "layers ^layer3", "plan"
  std::string inputs;  // dtypes, "f16 f16* f32"; * is a working copy, cast once per step
  std::string output;
  std::int64_t calls = 0;
  std::int64_t casts = 0;  // inserted before the op
  std::int64_t cast_bytes = 0, output_bytes = 0;
  std::int64_t flop = 0;
  bool lowered = false;  // the result is 16-bit
};

struct CastReport {
  std::vector<CastRow> rows;  // in the order of the first call
  std::int64_t casts = 0, cast_bytes = 0;
  std::int64_t backward_casts = 0;
  std::int64_t working_copies = 0,
               working_copy_bytes = 0;      // written by the update, without casts on the tape
  std::int64_t flop = 0, lowered_flop = 0;  // of all products; of those with a 16-bit result
  std::int64_t output_bytes = 0, lowered_output_bytes = 0;
};

// Whether an op of a layer has a 16-bit result.
bool ran_in_16_bits(const CastReport& report, const std::string& layer, const std::string& op);

// Runs one forward and backward of `batch` under `precision`, without an update. If `precision` lowers and
// the configuration has a plan, the plan is used, here and below.
CastReport report_casts(train::Workbench& bench, const amp::Precision& precision,
                        const datasets::Batch& batch);

// Bytes by kind at the peak of two training steps in a precision.
struct PrecisionMemory {
  std::string name;
  std::size_t peak = 0;
  std::size_t masters = 0, working = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
};

PrecisionMemory measure_memory(const config::Loaded& loaded, const runs::Weights& weights,
                               const std::string& name, const amp::Precision& precision,
                               Index batch_size = 0);

}  // namespace tandem::inspect
