// `apply`: the one function every op goes through. precision → compute → record.
#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include "autograd/modes.h"
#include "autograd/node.h"
#include "autograd/observers.h"
#include "core/error.h"

namespace tandem {

namespace detail {

// Checks devices, runs the active precision policy, and returns the floating dtype of the op's result.
DType prepare_inputs(const OpInfo& info, std::span<Tensor> inputs);
Device device_of(const OpInfo& info, std::span<const Tensor> inputs);
bool any_requires_grad(std::span<const Tensor> inputs);

// Throws UserError when a saved tensor was written in place after it was saved.
void check_version(const OpInfo& info, const Tensor& saved, std::uint64_t version);
[[noreturn]] void fail_released(const OpInfo& info);
[[noreturn]] void fail_fused(const OpInfo& info);

template <class Op>
concept Fused = requires(const Op& op, const typename Op::In& in) {
  { Op::composed(op, in) } -> std::same_as<typename Op::Out>;
};

// An op without inputs says itself what it makes and where; it is never recorded.
template <class Op>
concept Source = std::is_empty_v<typename Op::In> && requires(const Op& op) {
  { op.options } -> std::convertible_to<TensorOptions>;
};

template <class Op>
class OpNode final : public Node {
 public:
  OpNode(const Op& op, typename Op::Saved&& saved, std::span<const Tensor> in, std::span<const Tensor> out)
      : op_(op), saved_(std::move(saved)) {
    inputs.reserve(in.size());
    for (const Tensor& input : in) {
      inputs.push_back(input.defined() && is_floating(input.dtype()) ? input.edge() : GradientEdge{});
    }
    outputs.reserve(out.size());
    for (const Tensor& output : out) {
      outputs.push_back(output.defined() ? OutputMeta{output.shape(), output.dtype(), output.device()}
                                         : OutputMeta{});
    }
    for (const Tensor& tensor : tensors_of(saved_)) {
      Kept kept;
      if (tensor.defined()) {
        kept.version = tensor.version();
        for (std::size_t i = 0; i < out.size(); ++i) {
          if (!tensor.requires_grad() && tensor.is_same(out[i])) kept.output = static_cast<int>(i);
        }
      }
      kept_.push_back(kept);
    }
  }

  const OpInfo& info() const override { return Op::info; }
  const Op& op() const { return op_; }

  void backward(std::span<Tensor> dy, std::span<Tensor> dx, const Needs& needs) override {
    if (released_) fail_released(Op::info);
    if constexpr (Fused<Op>) {
      if (needs.create_graph()) fail_fused(Op::info);
    }
    const auto saved = tensors_of(saved_);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (saved[i].defined()) check_version(Op::info, saved[i], kept_[i].version);
    }
    typename Op::Out gradients;
    if constexpr (requires { gradients.list; }) gradients.list.resize(dy.size());
    const auto slots = tensors_of(gradients);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = std::move(dy[i]);
    typename Op::In result = needs.create_graph() ? op_.backward(with_edges(), gradients, needs)
                                                  : op_.backward(saved_, gradients, needs);
    const auto produced = tensors_of(result);
    for (std::size_t i = 0; i < dx.size() && i < produced.size(); ++i) dx[i] = std::move(produced[i]);
  }

  std::span<const Tensor> saved() const override { return tensors_of(saved_); }

  void release_saved() override {
    saved_ = {};
    released_ = true;
  }

 private:
  struct Kept {
    std::uint64_t version = 0;
    int output = -1;  // this saved tensor is the op's own output of that index
  };

  // A saved output is kept without its edge, which would be a cycle; differentiating backward needs it.
  typename Op::Saved with_edges() {
    typename Op::Saved copy = saved_;
    const auto tensors = tensors_of(copy);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (kept_[i].output >= 0)
        tensors[i].set_edge({Ref<RefCounted>(this), static_cast<std::uint32_t>(kept_[i].output)});
    }
    return copy;
  }

  Op op_;
  typename Op::Saved saved_;
  std::vector<Kept> kept_;
  bool released_ = false;
};

}  // namespace detail

// The op that gave `result`, with its options, as the tape keeps it; nullptr when another op gave it, or
// nothing was recorded.
template <class Op>
const Op* op_of(const Tensor& result) {
  const auto* node = dynamic_cast<const detail::OpNode<Op>*>(node_of(result));
  return node ? &node->op() : nullptr;
}

// Runs `op`. `sink` is where a gradient op may write its (only) output.
template <class Op>
typename Op::Out apply(const Op& op, typename Op::In in, const Destination* sink = nullptr) {
  if constexpr (detail::Fused<Op>) {
    if (HigherOrder::active()) return Op::composed(op, in);
  }
  const std::span<Tensor> inputs = tensors_of(in);
  const bool observed = ObserverScope::innermost() != nullptr;
  if (observed) notify([&](OpObserver& o) { o.before_forward(Op::info, inputs); });

  TensorOptions result;
  if constexpr (detail::Source<Op>) {
    result = op.options;
  } else {
    result.dtype = detail::prepare_inputs(Op::info, inputs);  // precision
    result.device = detail::device_of(Op::info, inputs);
  }
  Context context(backend_for(result.device), result.dtype, sink);
  typename Op::Saved saved;
  typename Op::Out out = op.forward(context, saved, in);  // compute
  const std::span<Tensor> outputs = tensors_of(out);
  if constexpr (!detail::Source<Op>) {
    if (GradMode::enabled() && detail::any_requires_grad(inputs)) {  // record
      Ref<Node> node(new detail::OpNode<Op>(op, std::move(saved), inputs, outputs));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].defined() && is_floating(outputs[i].dtype()))
          outputs[i].set_edge({node, static_cast<std::uint32_t>(i)});
      }
    }
  }
  if (observed) notify([&](OpObserver& o) { o.after_forward(Op::info, inputs, outputs); });
  return out;
}

}  // namespace tandem
