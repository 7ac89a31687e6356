// Measured costs of a model's graph on this machine: time of each op in f32 and in 16 bits at its real
// shapes, and of casts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "amp/plan/precision_plan.h"
#include "amp/trace.h"
#include "studies/plan/subject.h"

namespace tandem::planning {

struct Measured {
  amp::plan::Graph graph;              // with costs
  std::vector<bool> measured;          // by op
  std::vector<std::int64_t> flop;      // of forward, by op
  std::vector<double> f32_ns, low_ns;  // by op, in f32 and with all possible ops in 16 bits
  std::int64_t rest_ns = 0;            // of an f32 step outside of its ops
  int rounds = 0;
  amp::plan::PrecisionPlan::Machine machine;
};

struct MeasureOptions {
  double seconds = 10.0;
  std::size_t phase = 0;  // measured without the others
  amp::plan::DeadBand band{};
  // Measurements of the machine from another phase; absent: it is measured.
  std::optional<amp::plan::PrecisionPlan::Machine> machine{};
};

// Measures four kinds of steps in turns, for at most `seconds` but at least three rounds, and uses lower
// quartiles of each op: everything in f32; everything in 16 bits; operands of products in f32 and everything
// else in 16 bits; operands of products in 16 bits and everything else in f32. This covers each combination
// of a product's dtypes. The time that another op saves in 16 bits is divided among the tensors that it reads
// and writes, in proportion to their elements. Casts are timed for each size. Differences within `band` are
// noise and count as zero.
Measured measure(const config::Loaded& loaded, const tasks::DataPtr& data, const amp::TracedModel& traced,
                 const amp::Precision& precision, const MeasureOptions& options);

// A plan with these dtypes for measurements, without reasons and costs.
amp::plan::PrecisionPlan bare_plan(const amp::plan::Graph& graph, const amp::plan::Assignment& assignment,
                                   DType low, bool share);
// The same, resolved for a model and a single phase.
amp::ResolvedPrecision runnable(const amp::plan::Graph& graph, const amp::plan::Assignment& assignment,
                                const amp::Precision& precision, bool share, nn::Module& model,
                                std::size_t phase = 0);

// The lower quartile of times, since other load of the machine only adds to them. 0 for no values.
double lower_quartile(std::vector<double> values);

}  // namespace tandem::planning
