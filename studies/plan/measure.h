// Prices of a model's graph on this machine: what each op takes in f32 and in 16 bits at its real shapes, and
// what casts take.
#pragma once

#include <cstdint>
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

// Steps of four kinds, in turns, at most for `seconds` but at least three rounds of them; lower quartiles of
// each op: everything in f32; everything in 16 bits; operands of products in f32 and everything else in
// 16 bits; operands of products in 16 bits and everything else in f32. So each combination that a plan gives
// a product has been run. What an op that is no product takes less in 16 bits is divided among the tensors
// that it reads and writes, by their elements. Casts are timed on each size that there is. Differences that
// are noise (`band`) count as none.
Measured measure(const config::Loaded& loaded, const tasks::DataPtr& data, const amp::TracedModel& traced,
                 const amp::Precision& precision, double seconds, const amp::plan::DeadBand& band = {});

// A plan of these types, to run and measure; without reasons and prices.
amp::plan::PrecisionPlan bare_plan(const amp::plan::Graph& graph, const amp::plan::Assignment& assignment,
                                   DType low, bool share);
// The same, ready to run on a model.
amp::Plan runnable(const amp::plan::Graph& graph, const amp::plan::Assignment& assignment,
                   const amp::Precision& precision, bool share, nn::Module& model);

double median(std::vector<double> values);

}  // namespace tandem::planning
