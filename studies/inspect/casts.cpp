#include "studies/inspect/casts.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "autograd/observers.h"
#include "core/allocator.h"
#include "core/pattern.h"

namespace tandem::inspect {

namespace {

// Layer names for ops outside of the model, and for ops of the root module.
const std::string kOutside = "loss", kWhole = "(model)";

bool is_cast(const OpInfo& info) { return info.traits.kind == OpKind::casts; }

// Finds the reason for an op's dtype.
class Reasons {
 public:
  Reasons(const amp::Precision& precision, bool planned) : precision_(precision), planned_(planned) {
    for (const amp::LayerRule& rule : precision.layers)
      layers_.emplace_back(rule.match, compile_pattern(rule.match));
  }

  std::string of(const OpInfo& info, const std::string& layer) const {
    if (info.rule == CastRule::none) return "rule none";
    if (!precision_.lowers()) return "level O0";
    if (planned_) return "plan";
    if (const std::string* rule = rule_of(layer)) return "layers " + *rule;
    const std::string name = info.name;
    const auto listed = [&](const std::vector<std::string>& list) {
      return std::ranges::find(list, name) != list.end();
    };
    if (listed(precision_.lists.allow)) return "lists.allow";
    if (listed(precision_.lists.deny)) return "lists.deny";
    if (listed(precision_.lists.infer)) return "lists.infer";
    if (precision_.level >= amp::Level::O2 &&
        (info.rule == CastRule::neutral || info.rule == CastRule::widest))
      return precision_.level == amp::Level::O2 ? "level O2" : "level O3";
    return fmt::format("rule {}", tandem::name_of(info.rule));
  }

 private:
  // The last rule of the innermost module with a rule. Ops outside of modules have none.
  const std::string* rule_of(const std::string& layer) const {
    if (layer == kOutside) return nullptr;
    for (std::string path = layer;; path = path.substr(0, path.rfind('.'))) {
      for (auto rule = layers_.rbegin(); rule != layers_.rend(); ++rule)
        if (std::regex_search(path, rule->second)) return &rule->first;
      if (path.find('.') == std::string::npos) return nullptr;
    }
  }

  const amp::Precision& precision_;
  const bool planned_;
  std::vector<std::pair<std::string, std::regex>> layers_;
};

class CastCollector final : public OpObserver, public nn::ModuleObserver {
 public:
  CastCollector(nn::Module& model, const amp::Precision& precision, bool planned)
      : reasons_(precision, planned), observed_ops_(*this), observed_modules_(*this) {
    model.visit([&](const std::string& path, nn::Module& module) { paths_.emplace(&module, path); });
    for (const Parameter& parameter : model.parameters()) leaves_.insert(&parameter.leaf());
  }

  CastReport report;

  void enter(nn::Module& module) override { running_.push_back(paths_[&module]); }
  void leave(nn::Module&, const Tensor&) override { running_.pop_back(); }

  void before_forward(const OpInfo&, std::span<const Tensor>) override { open_.push_back({}); }

  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    const Pending own = open_.back();
    open_.pop_back();
    std::int64_t bytes = 0;
    for (const Tensor& output : outputs)
      bytes += output.defined() ? static_cast<std::int64_t>(output.bytes()) : 0;
    if (is_cast(info) && !open_.empty()) {  // inserted before the current op
      ++open_.back().casts;
      open_.back().bytes += bytes;
      return;
    }
    if (backward_) {
      report.backward_casts += is_cast(info);
      return;
    }
    const std::string layer = running_.empty() ? kOutside : running_.back();
    CastRow& row = row_of({.layer = layer.empty() ? kWhole : layer,
                           .op = info.name,
                           .reason = reasons_.of(info, layer),
                           .inputs = types_of(inputs),
                           .output = types_of(outputs)});
    const std::int64_t flop = 2 * info.traits.multiply_adds(inputs, outputs);
    const bool lowered = !outputs.empty() && outputs[0].defined() && is_16bit(outputs[0].dtype());
    ++row.calls;
    row.casts += own.casts;
    row.cast_bytes += own.bytes;
    row.output_bytes += bytes;
    row.flop += flop;
    row.lowered = lowered;
    report.casts += own.casts;
    report.cast_bytes += own.bytes;
    report.flop += flop;
    report.output_bytes += bytes;
    if (!lowered) return;
    report.lowered_flop += flop;
    report.lowered_output_bytes += bytes;
  }

  void before_backward(const Node&, std::span<const Tensor>) override { backward_ = true; }
  void after_backward(const Node& node, std::span<const Tensor>) override {
    report.backward_casts += is_cast(node.info());
    backward_ = false;
  }

 private:
  struct Pending {
    std::int64_t casts = 0, bytes = 0;
  };

  CastRow& row_of(CastRow key) {
    const auto same = [&](const CastRow& row) {
      return row.layer == key.layer && row.op == key.op && row.reason == key.reason &&
             row.inputs == key.inputs && row.output == key.output;
    };
    const auto found = std::ranges::find_if(report.rows, same);
    if (found != report.rows.end()) return *found;
    report.rows.push_back(std::move(key));
    return report.rows.back();
  }

  std::string types_of(std::span<const Tensor> tensors) {
    std::string text;
    for (const Tensor& tensor : tensors) {
      if (!tensor.defined()) continue;
      text += fmt::format("{}{}", text.empty() ? "" : " ", tandem::name_of(tensor.dtype()));
      if (!is_16bit(tensor.dtype()) || !tensor.requires_grad() || !leaves_.contains(node_of(tensor)))
        continue;
      text += "*";
      if (!counted_.insert(node_of(tensor)).second) continue;
      ++report.working_copies;
      report.working_copy_bytes += static_cast<std::int64_t>(tensor.bytes());
    }
    return text;
  }

  Reasons reasons_;
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::unordered_set<const Node*> leaves_, counted_;
  std::vector<std::string> running_;
  std::vector<Pending> open_;
  bool backward_ = false;
  ObserverScope observed_ops_;
  nn::ModuleObserverScope observed_modules_;
};

}  // namespace

bool ran_in_16_bits(const CastReport& report, const std::string& layer, const std::string& op) {
  return std::ranges::any_of(report.rows, [&](const CastRow& row) {
    return row.layer == (layer.empty() ? kWhole : layer) && row.op == op && row.lowered;
  });
}

namespace {

bool follows_plan(const config::Loaded& loaded, const amp::Precision& precision) {
  return precision.lowers() && loaded.config.precision.plan.has_value();
}

std::unique_ptr<amp::ResolvedPrecision> followed(const train::Workbench& bench, nn::Module& model,
                                                 const amp::Precision& precision) {
  if (follows_plan(bench.loaded(), precision)) return train::resolve_precision(bench.loaded(), model);
  return std::make_unique<amp::ResolvedPrecision>(precision, model);
}

}  // namespace

CastReport report_casts(train::Workbench& bench, const amp::Precision& precision,
                        const datasets::Batch& batch) {
  const auto resolved = followed(bench, bench.model(), precision);
  CastCollector collector(bench.model(), precision, follows_plan(bench.loaded(), precision));
  for (std::size_t phase = 0; phase < bench.phases(); ++phase)
    backward(bench.loss(batch, *resolved, 0, phase), precision.scaler.initial);
  bench.model().clear_gradients();
  return std::move(collector.report);
}

PrecisionMemory measure_memory(const config::Loaded& loaded, const runs::Weights& weights,
                               const std::string& name, const amp::Precision& precision, Index batch_size) {
  CachingAllocator& memory = host_allocator();
  memory.trim();
  const MemoryFigures before = memory.figures();
  train::Workbench bench(loaded, weights, batch_size);
  const auto resolved = followed(bench, bench.model(), precision);
  const auto learners = bench.make_learners(precision);
  memory.reset_peak();
  for (std::uint32_t i = 0; i < 2; ++i) {
    const datasets::Batch batch = bench.next_batch();
    for (std::size_t phase = 0; phase < learners->size(); ++phase) {
      optim::Step& step = *(*learners)[phase].step;
      step.backward(bench.loss(batch, *resolved, i, phase), 1.0, (*learners)[phase].first_loss);
      step.apply();
    }
    learners->end_iteration();
  }
  const MemoryFigures after = memory.figures();
  const auto of = [&](MemoryKind kind) {
    const auto k = static_cast<std::size_t>(kind);
    return after.peak_by_kind[k] - std::min(after.peak_by_kind[k], before.live_by_kind[k]);
  };
  return {.name = name,
          .peak = after.peak - before.live,
          .masters = of(MemoryKind::masters),
          .working = of(MemoryKind::weights),
          .gradients = of(MemoryKind::gradients),
          .optimizer = of(MemoryKind::optimizer),
          .activations = of(MemoryKind::activations),
          .workspace = of(MemoryKind::workspace)};
}

}  // namespace tandem::inspect
