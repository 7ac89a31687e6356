#include "studies/plan/blame.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "amp/op_keys.h"
#include "amp/plan/plan_file.h"
#include "amp/plan/rules.h"
#include "amp/plan/search.h"
#include "amp/planned_policy.h"
#include "autograd/node.h"
#include "config/task.h"
#include "core/error.h"
#include "runs/run_data.h"
#include "studies/plan/measure.h"
#include "studies/plan/shadow.h"
#include "train/planned.h"
#include "train/setup.h"

namespace tandem::planning {

using amp::plan::Assignment;
using amp::plan::Graph;
using amp::plan::OpKey;

namespace {

// Values of one op in one step: its first result, and its input gradients without the loss scale. With
// segments, the scale of the first one is used, since an op is only compared with itself.
struct Values {
  Tensor result;
  std::vector<float> gradients;
};

// Observer that records the values of some ops.
class OpValues final : public OpObserver {
 public:
  OpValues(nn::Module& model, const Graph& graph, const std::vector<int>& ops, double scale)
      : scale_(scale), keys_(model), observed_(*this) {
    for (const int op : ops) numbers_.emplace(to_string(graph.at(op).key), op);
  }

  std::unordered_map<int, Values> values;

  void before_forward(const OpInfo&, std::span<const Tensor>) override { ++depth_; }
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    if (--depth_ > 0 || backward_ || outputs.empty() || !amp::is_planned(info, inputs)) return;
    const auto found = numbers_.find(to_string(keys_.next(info.name)));
    if (found == numbers_.end()) return;
    values[found->second].result = outputs.front().detach();
    if (const Node* const node = node_of(outputs.front())) nodes_[node] = found->second;
  }
  void before_backward(const Node&, std::span<const Tensor>) override { backward_ = true; }
  void after_backward(const Node& node, std::span<const Tensor> input_gradients) override {
    const auto found = nodes_.find(&node);
    if (found == nodes_.end()) return;
    std::vector<float>& gradients = values[found->second].gradients;
    for (const Tensor& gradient : input_gradients) {
      if (!gradient.defined() || !is_floating(gradient.dtype())) continue;
      for (const float value : gradient.to_vector<float>())
        gradients.push_back(static_cast<float>(value / scale_));
    }
  }

 private:
  const double scale_;
  int depth_ = 0;
  bool backward_ = false;
  std::unordered_map<std::string, int> numbers_;
  std::unordered_map<const Node*, int> nodes_;
  amp::OpKeys keys_;
  ObserverScope observed_;
};

struct Difference {
  double squares = 0.0, flushed = 0.0, whole = 0.0;
  bool compared = false;  // some value is finite in f32
  bool lost = false;      // some finite value became non-finite

  double relative() const {
    using Limits = std::numeric_limits<double>;
    if (!compared) return Limits::quiet_NaN();
    return lost ? Limits::infinity() : std::sqrt(squares / std::max(whole, 1e-60));
  }
};

Difference difference(const std::vector<float>& low, const std::vector<float>& wide) {
  Difference sum;
  for (std::size_t i = 0; i < std::min(low.size(), wide.size()); ++i) {
    if (!std::isfinite(wide[i])) continue;
    sum.compared = true;
    if (!std::isfinite(low[i])) {
      sum.lost = true;
      continue;
    }
    const double delta = static_cast<double>(low[i]) - static_cast<double>(wide[i]);
    sum.squares += delta * delta;
    sum.whole += static_cast<double>(wide[i]) * static_cast<double>(wide[i]);
    if (low[i] == 0.0f && wide[i] != 0.0f) sum.flushed += delta * delta;
  }
  return sum;
}

Cause cause_of(const Difference& result, const Difference& gradients) {
  if (result.lost || gradients.lost) return Cause::range;
  const auto flushes = [](const Difference& part) { return part.flushed > 0.5 * part.squares; };
  if (flushes(result) || flushes(gradients)) return Cause::flush;
  return result.squares + gradients.squares > 0.0 ? Cause::rounding : Cause::none;
}

// Dtypes of all ops under the configuration's precision.
Assignment types_of(const config::Loaded& loaded, const Graph& graph, std::size_t phase) {
  const std::string text = train::plan_text_of(loaded);
  if (text.empty()) return amp::plan::rules(graph);
  const std::string& file = loaded.config.precision.plan.value();
  const amp::plan::PhasePlans plans = amp::plan::parse_plan(text, file);
  require(phase < plans.size(), "plan",
          "{} is for {} phases, and a step of this task has more; make it again: tandem plan CONFIG", file,
          plans.size());
  return amp::plan::assignment_of(plans[phase], graph, file);
}

class BlameRun {
 public:
  BlameRun(const config::Loaded& loaded, const runs::Weights& weights, int batches, double scale,
           std::size_t phase, const std::vector<amp::SegmentedLossScale::Segment>& segments)
      : phase_(phase),
        precision_(precision_for(loaded)),
        graph_(train::trace_of(loaded, runs::describe_data(loaded.config, weights.data), phase).graph),
        assignment_(types_of(loaded, graph_, phase)),
        step_(loaded, weights, batches, phase),
        borders_(step_.model(), segments),
        scale_(scale) {
    if (segments.size() > 1) step_.set_borders(&borders_);
  }

  Blame run() {
    const std::vector<int> all = amp::plan::lowered(graph_, assignment_);
    Blame blame{.noise = step_.noise(), .scale = scale_, .batches = step_.batches()};
    blame.error = error(all);
    const std::unordered_map<int, Values> wide = watched(all, resolved_with({}));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<int> others = all;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      blame.ops.push_back(alone(all[i], wide.at(all[i])));
      blame.ops.back().share = amp::plan::share_of_error(blame.error, error(others));
    }
    std::ranges::stable_sort(blame.ops, std::ranges::greater{}, &BlamedOp::share);
    blame.runs = step_.runs();
    return blame;
  }

 private:
  static amp::Precision precision_for(const config::Loaded& loaded) {
    amp::Precision precision = train::precision_of(loaded.config);
    require(precision.is_plain_o1(), "",
            "inspect --blame: precision {}: needs level O1 or a plan; set precision=amp_fp16 or amp_bf16",
            loaded.config.precision.label());
    return precision;
  }

  amp::ResolvedPrecision resolved_with(const std::vector<int>& low) {
    return runnable(graph_, amp::plan::restricted(graph_, assignment_, low), precision_, true, step_.model(),
                    phase_);
  }

  double error(const std::vector<int>& low) {
    const amp::ResolvedPrecision resolved = resolved_with(low);
    double squares = 0.0;
    for (int batch = 0; batch < step_.batches(); ++batch) {
      const double error = step_.error(resolved, batch, scale_);
      squares += error * error;
    }
    return std::sqrt(squares / step_.batches());
  }

  std::unordered_map<int, Values> watched(const std::vector<int>& ops,
                                          const amp::ResolvedPrecision& resolved) {
    OpValues watching(step_.model(), graph_, ops, scale_);
    step_.run(resolved, 0, scale_);
    return std::move(watching.values);
  }

  // Runs this op in 16 bits and all others in f32, so that its inputs are those of f32.
  BlamedOp alone(int op, const Values& wide) {
    const Values low = watched({op}, resolved_with({op}))[op];
    const Difference result = difference(low.result.to_vector<float>(), wide.result.to_vector<float>()),
                     gradients = difference(low.gradients, wide.gradients);
    return {.key = graph_.at(op).key,
            .local = result.relative(),
            .share = 0.0,
            .cause = cause_of(result, gradients)};
  }

  const std::size_t phase_;
  const amp::Precision precision_;
  const Graph graph_;
  const Assignment assignment_;
  ShadowStep step_;
  const amp::SegmentedLossScale borders_;
  const double scale_;
};

}  // namespace

const char* name_of(Cause cause) {
  constexpr const char* names[] = {"none", "range", "flush", "rounding"};
  return names[static_cast<int>(cause)];
}

Blame blame(const config::Loaded& loaded, const runs::Weights& weights, int batches, double scale,
            std::size_t phase, const std::vector<amp::SegmentedLossScale::Segment>& segments) {
  return BlameRun(loaded, weights, batches, scale, phase, segments).run();
}

}  // namespace tandem::planning
