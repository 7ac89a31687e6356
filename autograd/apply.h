// `apply`: the function that runs every op. precision → compute → record.
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

// Checks devices, applies the active precision policy, and returns the floating dtype of the op's result.
DType prepare_inputs(const OpInfo& info, std::span<Tensor> inputs);
Device device_of(const OpInfo& info, std::span<const Tensor> inputs);
bool any_requires_grad(std::span<const Tensor> inputs);

// The common part of every op's node.
class RecordedNode : public Node {
 protected:
  // Stores the edges of the inputs, the metadata of the outputs, and the version of every saved tensor.
  void keep(std::span<const Tensor> in, std::span<const Tensor> out, std::span<const Tensor> saved);
  // Throws UserError when a saved tensor was released, or was written in place after it was saved.
  void check_saved(std::span<const Tensor> saved) const;
  // A saved output is stored without its edge, which would be a cycle; differentiating backward restores it.
  void give_edges(std::span<Tensor> saved);
  void mark_released() { released_ = true; }

 private:
  struct Kept {
    std::uint64_t version = 0;
    int output = -1;  // index of the output that this saved tensor is; -1: none
  };
  std::vector<Kept> kept_;
  bool released_ = false;
};

// Makes `node` the producer of the differentiable outputs.
void put_on_tape(const Ref<Node>& node, std::span<Tensor> outputs);
[[noreturn]] void fail_fused(const OpInfo& info);

bool register_op(const OpInfo& info);
// Registers the op at program start.
template <class Op>
inline const bool registered = register_op(Op::info);

template <class Op>
concept Fused = requires(const Op& op, const typename TypesOf<Op>::In& in) {
  { Op::composed(op, in) } -> std::same_as<typename TypesOf<Op>::Out>;
};

// An op without inputs defines the dtype and device of its result.
template <class Op>
concept Source = std::is_empty_v<typename TypesOf<Op>::In> && requires(const Op& op) {
  { op.options } -> std::convertible_to<TensorOptions>;
};

template <class Op>
class OpNode final : public RecordedNode {
 public:
  OpNode(const Op& op, typename TypesOf<Op>::Saved&& saved, std::span<const Tensor> in,
         std::span<const Tensor> out)
      : op_(op), saved_(std::move(saved)) {
    keep(in, out, tensors_of(saved_));
  }

  const OpInfo& info() const override { return Op::info; }
  const Op& op() const { return op_; }

  void backward(std::span<Tensor> dy, std::span<Tensor> dx, const Needs& needs) override {
    check_saved(tensors_of(saved_));
    if constexpr (Fused<Op>) {
      if (needs.create_graph()) fail_fused(Op::info);
    }
    typename TypesOf<Op>::Out gradients;
    if constexpr (requires { gradients.list; }) gradients.list.resize(dy.size());
    const auto slots = tensors_of(gradients);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = std::move(dy[i]);
    typename TypesOf<Op>::In result = needs.create_graph() ? op_.backward(with_edges(), gradients, needs)
                                                           : op_.backward(saved_, gradients, needs);
    const auto produced = tensors_of(result);
    for (std::size_t i = 0; i < dx.size() && i < produced.size(); ++i) dx[i] = std::move(produced[i]);
  }

  std::span<const Tensor> saved() const override { return tensors_of(saved_); }

  void release_saved() override {
    saved_ = {};
    mark_released();
  }

 private:
  typename TypesOf<Op>::Saved with_edges() {
    typename TypesOf<Op>::Saved copy = saved_;
    give_edges(tensors_of(copy));
    return copy;
  }

  Op op_;
  typename TypesOf<Op>::Saved saved_;
};

}  // namespace detail

// The op on the tape that produced `result`, with its options; nullptr for another op, or if nothing was
// recorded.
template <class Op>
const Op* op_of(const Tensor& result) {
  const auto* node = dynamic_cast<const detail::OpNode<Op>*>(node_of(result));
  return node ? &node->op() : nullptr;
}

// Ops that the loaded program applies, including those from outside the tree.
std::vector<const OpInfo*> applied_ops();

// Runs `op`. `sink`: destination that a gradient op may write its (only) output to.
template <class Op>
typename TypesOf<Op>::Out apply(const Op& op, typename TypesOf<Op>::In in, const GradOutput* sink = nullptr) {
  static_assert(Op::info.traits.is_complete(), "an op of this kind defines OpTraits::products");
  static_cast<void>(detail::registered<Op>);
  if constexpr (detail::Fused<Op>) {
    if (HigherOrder::active() || ComposedOps::contains(Op::info)) return Op::composed(op, in);
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
  typename TypesOf<Op>::Saved saved;
  typename TypesOf<Op>::Out out = op.forward(context, saved, in);  // compute
  const std::span<Tensor> outputs = tensors_of(out);
  if constexpr (requires { &Op::backward; }) {
    if (GradMode::records() && detail::any_requires_grad(inputs)) {  // record
      detail::put_on_tape(Ref<Node>(new detail::OpNode<Op>(op, std::move(saved), inputs, outputs)), outputs);
    }
  }
  if (observed) notify([&](OpObserver& o) { o.after_forward(Op::info, inputs, outputs); });
  return out;
}

}  // namespace tandem
