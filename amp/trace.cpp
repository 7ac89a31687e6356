#include "amp/trace.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "amp/op_keys.h"
#include "amp/plan/precision_plan.h"
#include "amp/planned_policy.h"
#include "autograd/modes.h"
#include "autograd/node.h"
#include "autograd/observers.h"
#include "autograd/recompute.h"
#include "core/error.h"

namespace tandem::amp {

namespace {

using plan::Kind;
using plan::Op;
using plan::OpKey;
using plan::Read;

bool is_traced(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

class Tracer final : public OpObserver, public PrecisionPolicy {
 public:
  explicit Tracer(nn::Module& model) : keys_(model) {
    for (const Parameter& parameter : model.parameters()) {
      names_.emplace(name_of(parameter.value()), parameter.name());
      held_.push_back(parameter.value());
    }
  }

  DType prepare(const OpInfo& info, std::span<Tensor> inputs, DType common) override {
    const bool floating = std::ranges::any_of(inputs, is_traced);
    if (!floating || !GradMode::enabled()) return common;
    const bool inner = std::ranges::any_of(open_, [](const Frame& frame) { return frame.asked; });
    ensure(!inner, "plan", "precision is asked about {} within another op", info.name);
    open_.back().asked = true;
    return common;
  }

  void before_forward(const OpInfo&, std::span<const Tensor>) override { open_.push_back({}); }

  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override {
    const Frame frame = open_.back();
    open_.pop_back();
    held_.insert(held_.end(), outputs.begin(), outputs.end());
    if (frame.asked) {
      add(info, inputs, outputs);
    } else if (open_.empty()) {
      note_reads(inputs);
    }
  }

  plan::Graph finish(const Tensor& loss) {
    const auto found = results_.find(name_of(loss));
    if (found != results_.end())
      graph_.ops[static_cast<std::size_t>(root_of(graph_, found->second.first))].fetched = true;
    return std::move(graph_);
  }

 private:
  using Name = std::tuple<const void*, std::size_t, std::vector<Index>>;
  struct Frame {
    bool asked = false;  // precision was asked about it
  };

  static Name name_of(const Tensor& tensor) {
    std::vector<Index> extents;
    for (int axis = 0; axis < tensor.rank(); ++axis) extents.push_back(tensor.size(axis));
    return {tensor.storage().get(), tensor.offset(), std::move(extents)};
  }

  // The op and result that made a tensor; a new source node if no op made it.
  std::pair<int, int> source_of(const Tensor& tensor) {
    const Name name = name_of(tensor);
    if (const auto found = results_.find(name); found != results_.end()) return found->second;
    Op op;
    const auto parameter = names_.find(name);
    op.kind = parameter == names_.end() ? Kind::input : Kind::parameter;
    if (op.kind == Kind::parameter) {
      op.key = {.path = parameter->second};
    } else {
      op.key = {.path = "(input)", .call = inputs_++};
      if (is_16bit(tensor.dtype())) op.pin.out = true;
    }
    op.results = {{.elements = tensor.numel(), .gradient = tensor.requires_grad()}};
    held_.push_back(tensor);
    graph_.ops.push_back(std::move(op));
    return results_.emplace(name, std::pair(graph_.count() - 1, 0)).first->second;
  }

  void add(const OpInfo& info, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    Op op;
    op.key = keys_.next(info.name);
    op.rule = info.rule;
    op.op_kind = info.traits.kind;
    op.one_type = info.traits.one_type;
    bool wide = false;  // f64
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_traced(inputs[i])) continue;
      wide |= inputs[i].dtype() == DType::f64;
      const auto [source, result] = source_of(inputs[i]);
      op.reads.push_back({source, result, i < info.roles.size() ? info.roles[i] : Role::data});
    }
    op.capable = !wide;
    describe_results(op, info, outputs);
    op.keeps_output = keeps_output(outputs);
    const Tensor* const first = first_traced(outputs);
    const Tensor* const read = first_traced(inputs);
    op.view = first && read && !is_product(op) &&
              (info.traits.moves_values() || first->storage() == read->storage());
    const bool follows = !op.view && info.traits.keeps_type && op.reads.size() == 1;
    if (follows) graph_.ties.emplace_back(op.reads.front().op, graph_.count());
    // A cast requested by the model keeps its target type.
    if (op.rule == CastRule::none && first && is_16bit(first->dtype()))
      op.pin = {.out = true, .why = plan::Why::rule};
    const int number = graph_.count();
    int result = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!is_traced(outputs[i]) || info.traits.is_wide(i)) continue;
      results_[name_of(outputs[i])] = {number, result++};
    }
    graph_.ops.push_back(std::move(op));
  }

  // For an op that runs without a policy.
  void note_reads(std::span<const Tensor> inputs) {
    for (const Tensor& input : inputs) {
      if (!is_traced(input)) continue;
      const auto found = results_.find(name_of(input));
      if (found == results_.end()) continue;
      const auto [op, result] = found->second;
      ++graph_.ops[static_cast<std::size_t>(op)].results[static_cast<std::size_t>(result)].other_reads;
    }
  }

  static const Tensor* first_traced(std::span<const Tensor> tensors) {
    const auto found = std::ranges::find_if(tensors, is_traced);
    return found == tensors.end() ? nullptr : &*found;
  }

  static void describe_results(Op& op, const OpInfo& info, std::span<const Tensor> outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (is_traced(outputs[i]) && !info.traits.is_wide(i))
        op.results.push_back({.elements = outputs[i].numel(), .gradient = outputs[i].requires_grad()});
  }

  // Whether the tape saves one of the op's own results.
  static bool keeps_output(std::span<const Tensor> outputs) {
    const Tensor* const first = first_traced(outputs);
    const Node* const node = first ? node_of(*first) : nullptr;
    return node && std::ranges::any_of(node->saved(), [&](const Tensor& saved) {
             return is_traced(saved) && std::ranges::any_of(outputs, [&](const Tensor& output) {
                      return output.defined() && saved.is_same(output);
                    });
           });
  }

  OpKeys keys_;
  std::map<Name, std::string> names_;  // of parameters
  std::map<Name, std::pair<int, int>> results_;
  std::vector<Tensor> held_;
  std::vector<Frame> open_;
  int inputs_ = 0;
  plan::Graph graph_;
};

std::vector<std::string> lines_of_modules(nn::Module& model) {
  std::vector<std::string> lines;
  model.visit([&](const std::string& path, nn::Module& module) {
    std::string line = fmt::format("{}|{}|", path, module.describe());
    for (const auto& [name, parameter] : module.own_parameters())
      line += fmt::format("{}{}", name, tandem::to_string(parameter.value().shape()));
    lines.push_back(std::move(line));
  });
  return lines;
}

}  // namespace

std::string TracedModel::model_digest() const { return plan::model_digest(graph, modules); }
std::string TracedModel::shapes_digest() const { return plan::shapes_digest(graph); }

TracedModel trace(nn::Module& model, const std::function<Tensor()>& forward) {
  Tracer tracer(model);
  Tensor loss;
  {
    const PrecisionScope asked(&tracer);
    const ObserverScope ops(tracer);
    const KeepActivations recorded;
    loss = forward();
  }
  TracedModel traced{.graph = tracer.finish(loss), .modules = lines_of_modules(model)};
  check(traced.graph);
  return traced;
}

}  // namespace tandem::amp
