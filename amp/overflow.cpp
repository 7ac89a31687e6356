#include "amp/overflow.h"

#include <fmt/core.h>

#include <cmath>
#include <unordered_map>
#include <vector>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/node.h"
#include "autograd/observers.h"

namespace tandem::amp {

namespace {

struct NonFinite {
  Index index;
  double value;
};

std::optional<NonFinite> first_non_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return {};
  const std::vector<double> values = tensor.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return NonFinite{static_cast<Index>(i), values[i]};
  }
  return {};
}

// Checks every result in order until one is non-finite. For a backward composed of ops, only its final
// gradients are checked, which have names.
class FiniteTracer final : public OpObserver, public nn::ModuleObserver {
 public:
  explicit FiniteTracer(nn::Module& model) {
    model.visit([&](const std::string& path, nn::Module& module) { paths_.emplace(&module, path); });
    for (const Parameter& parameter : model.parameters())
      parameters_.emplace(&parameter.leaf(), parameter.name());
  }

  const std::optional<Overflow>& found() const { return found_; }

  void enter(nn::Module& module) override { stack_.push_back(paths_[&module]); }
  void leave(nn::Module&, const Tensor&) override { stack_.pop_back(); }

  void after_forward(const OpInfo& info, std::span<const Tensor>, std::span<const Tensor> outputs) override {
    if (in_backward_) return;
    const std::string layer = stack_.empty() ? "" : stack_.back();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].defined() && outputs[i].requires_grad()) layers_[node_of(outputs[i])] = layer;
      check(
          info, outputs[i], true, [&] { return fmt::format("output {}", i); }, layer);
    }
  }

  void before_backward(const Node& node, std::span<const Tensor> dy) override {
    in_backward_ = true;
    for (std::size_t i = 0; i < dy.size(); ++i)
      check(
          node.info(), dy[i], false, [&] { return fmt::format("gradient of output {}", i); }, layer_of(node));
  }

  void after_backward(const Node& node, std::span<const Tensor> dx) override {
    in_backward_ = false;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const auto name = [&] {
        const auto parameter = parameters_.find(static_cast<const Node*>(node.inputs[i].node.get()));
        return parameter == parameters_.end() ? fmt::format("gradient of input {}", i)
                                              : "gradient of " + parameter->second;
      };
      check(node.info(), dx[i], false, name, layer_of(node));
    }
  }

 private:
  std::string layer_of(const Node& node) const {
    const auto layer = layers_.find(&node);
    return layer == layers_.end() ? "" : layer->second;
  }

  template <class Name>
  void check(const OpInfo& info, const Tensor& tensor, bool forward, Name&& name, const std::string& layer) {
    if (found_) return;
    const auto bad = first_non_finite(tensor);
    if (!bad) return;
    found_ = Overflow{.op = info.name,
                      .tensor = fmt::format("{}, {}{}", name(), tandem::to_string(tensor),
                                            layer.empty() ? "" : ", in " + layer),
                      .index = bad->index,
                      .value = bad->value,
                      .forward = forward};
  }

  std::optional<Overflow> found_;
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::unordered_map<const Node*, std::string> parameters_, layers_;
  std::vector<std::string> stack_;
  bool in_backward_ = false;
};

std::optional<Overflow> replay(nn::Module& model, int micro_batches, const std::function<Tensor(int)>& loss,
                               double scale) {
  for (int i = 0; i < micro_batches; ++i) {
    FiniteTracer tracer(model);
    const ObserverScope ops(tracer);
    const nn::ModuleObserverScope layers(tracer);
    const Tensor value = loss(i);
    if (!tracer.found()) backward(value, scale);
    if (tracer.found()) return tracer.found();
  }
  return {};
}

}  // namespace

std::string to_string(const Overflow& overflow) {
  return fmt::format("{}: {}, is {} at index {} in {}; {}", overflow.op, overflow.tensor,
                     std::isnan(overflow.value) ? NAN : overflow.value,  // drops the sign
                     overflow.index, overflow.forward ? "forward" : "backward",
                     overflow.caused_by_scale ? "the loss scale is the cause: it is finite at scale 1"
                                              : "the model is the cause: a lower loss scale does not help");
}

std::optional<Overflow> find_overflow(nn::Module& model, int micro_batches,
                                      const std::function<Tensor(int)>& loss, double scale) {
  std::optional<Overflow> found = replay(model, micro_batches, loss, scale);
  if (found && !found->forward && scale != 1.0) {
    model.clear_gradients();
    found->caused_by_scale = !replay(model, micro_batches, loss, 1.0);
  }
  model.clear_gradients();
  return found;
}

}  // namespace tandem::amp
