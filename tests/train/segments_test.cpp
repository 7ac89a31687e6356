// Borders between segments of the loss scale in a model of each family: backward in FP32 keeps its bits, and
// FP16, by rules or by a plan, has the borders of FP32.
#include <catch2/catch.hpp>
#include <cmath>

#include "amp/chain_collector.h"
#include "amp/plan/rules.h"
#include "autograd/engine.h"
#include "tests/train/planned_families.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

// Every border that there is, with scales up and down.
std::vector<amp::SegmentedLossScale::Segment> all_segments(PlannedSteps& steps) {
  amp::ChainCollector collector(steps.task->model());
  const Tensor loss = steps.forward();
  collector.begin_backward(loss);
  backward(loss);
  collector.end_backward();
  steps.task->model().clear_gradients();
  std::vector<amp::SegmentedLossScale::Segment> segments;
  for (const auto& link : collector.links().links) {
    const int number = static_cast<int>(segments.size());
    segments.push_back({link.border, number == 0 ? 0 : number * 5 % 7 - 3, link.parameters});
  }
  return segments;
}

// Gradients of all parameters, divided by what their segments have.
std::vector<float> gradients(PlannedSteps& steps, const amp::ResolvedPrecision& plan,
                             const amp::SegmentedLossScale* borders) {
  Tensor loss;
  {
    const amp::Autocast autocast(plan);
    const amp::BorderScope scope(borders);
    loss = steps.forward();
    autocast.finish();
    scope.finish(loss);
  }
  backward(loss);
  std::vector<float> found;
  for (const Parameter& parameter : steps.task->model().parameters()) {
    if (!parameter.gradient().defined()) continue;
    for (const float value : parameter.gradient().to_vector<float>())
      found.push_back(borders ? std::ldexp(value, -borders->log2_scale_of(parameter)) : value);
  }
  steps.task->model().clear_gradients();
  return found;
}

}  // namespace

TEST_CASE("borders of every family change no bit in FP32, and FP16 has the same", "[segments]") {
  for (const std::string& name : planned_families()) {
    INFO(name);
    const PlannedFamily wide(name, "fp32"), narrow(name, "amp_fp16");
    PlannedSteps plain(wide), other(wide), low(narrow), looked_at(narrow);
    const auto segments = all_segments(looked_at);
    CHECK(segments.size() >= (name == "classification" ? 8u : 2u));
    const amp::SegmentedLossScale of_other(other.task->model(), segments),
        of_low(low.task->model(), segments);
    const amp::ResolvedPrecision fp32(amp::Precision::fp32());
    const auto expected = gradients(plain, fp32, nullptr);
    CHECK(!expected.empty());
    CHECK(gradients(other, fp32, &of_other) == expected);

    const amp::ResolvedPrecision fp16({.level = amp::Level::O1, .dtype = DType::f16});
    CHECK(gradients(low, fp16, &of_low).size() == expected.size());
    const amp::plan::Graph graph = train::trace_of(narrow.loaded, narrow.data).graph;
    const amp::ResolvedPrecision planned = low.planned(graph, amp::plan::rules(graph), true);
    CHECK(gradients(low, planned, &of_low).size() == expected.size());
  }
}
