// Prices of a model's graph on this machine: what each op takes in f32 and in 16 bits at its real shapes, and
// what casts take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "amp/plan/precision_plan.h"
#include "amp/trace.h"
#include "studies/plan/subject.h"

namespace tandem::planning {

struct Measured {
  amp::plan::Graph graph;              // with prices
  std::vector<bool> measured;          // each op of it
  std::vector<std::int64_t> flop;      // forward's, by op
  std::vector<double> f32_ns, low_ns;  // of whole ops, in f32 and with everything 16-bit that may be
  std::int64_t rest_ns = 0;            // of an f32 step besides its ops
  int rounds = 0;
  amp::plan::PrecisionPlan::Machine machine;
};

struct MeasureOptions {
  double seconds = 10.0;
  std::size_t phase = 0;  // of a step: the one that was traced, measured without the others
  amp::plan::DeadBand band{};
  // What is known of the machine from another phase; absent: it is measured, too.
  std::optional<amp::plan::PrecisionPlan::Machine> machine{};
};

// Steps of four kinds, in turns, at most for so many seconds but at least three rounds of them; lower
// quartiles of each op: everything in f32; everything in 16 bits; operands of products in f32 and everything
// else in 16 bits; operands of products in 16 bits and everything else in f32. So each combination that a
// plan gives a product has been run. What an op that is no product takes less in 16 bits is divided among the
// tensors that it reads and writes, by their elements. Casts are timed on each size that there is.
// Differences that are noise (`band`) count as none.
Measured measure(const config::Loaded& loaded, const tasks::DataPtr& data, const amp::TracedModel& traced,
                 const amp::Precision& precision, const MeasureOptions& options);

// A plan of these types, to run and measure; without reasons and prices.
amp::plan::PrecisionPlan bare_plan(const amp::plan::Graph& graph, const amp::plan::Assignment& assignment,
                                   DType low, bool share);
// The same, ready to run on a model, in that phase alone.
amp::ResolvedPrecision runnable(const amp::plan::Graph& graph, const amp::plan::Assignment& assignment,
                                const amp::Precision& precision, bool share, nn::Module& model,
                                std::size_t phase = 0);

// A time that a quarter of all are below: whatever else the machine does only adds to them. 0 of none.
double lower_quartile(std::vector<double> values);
double median(std::vector<double> values);

}  // namespace tandem::planning
