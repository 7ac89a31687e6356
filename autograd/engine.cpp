#include "autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <queue>

#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "autograd/node.h"
#include "autograd/observers.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"

namespace tandem {

class Engine {
 public:
  Engine(BackwardOptions options, std::span<const Tensor> captured)
      : options_(options),
        captured_(captured),
        captured_gradients_(captured.size()),
        number_(next_number()) {}

  TensorList run(std::span<const Tensor> outputs, std::span<const Tensor> seeds) {
    const GradMode mode(options_.create_graph);
    const PrecisionScope full_precision(nullptr);  // backward repeats the dtypes of forward
    start(nodes_behind(outputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Node* node = node_of(outputs[i]);
      if (node->run_.needed)
        deliver(*node, outputs[i].edge().output, options_.create_graph ? seeds[i] : seeds[i].detach());
    }
    while (!ready_.empty()) {
      Node* node = ready_.top();
      ready_.pop();
      process(*node);
    }
    return std::move(captured_gradients_);
  }

 private:
  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> number{0};
    return ++number;
  }

  struct BySequence {
    bool operator()(const Node* a, const Node* b) const { return a->sequence() < b->sequence(); }
  };

  // Only leaves have no inputs.
  static Leaf* as_leaf(Node& node) { return node.inputs.empty() ? static_cast<Leaf*>(&node) : nullptr; }

  bool is_captured(const Node& node) const {
    return std::ranges::any_of(captured_, [&](const Tensor& t) { return node_of(t) == &node; });
  }

  // The nodes that the outputs depend on and that are not yet part of the run, producers first.
  std::vector<Node*> nodes_behind(std::span<const Tensor> outputs) {
    std::vector<Node*> nodes, stack;
    const auto visit = [&](Node* node) {
      if (node->run_.number == number_) return;
      node->run_.number = number_;
      node->run_.dependencies = 0;
      node->run_.needed = false;
      node->run_.gradients.assign(node->outputs.size(), Tensor{});
      nodes.push_back(node);
      stack.push_back(node);
    };
    for (const Tensor& output : outputs)
      if (Node* const node = node_of(output)) visit(node);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      for (const GradientEdge& edge : node->inputs) {
        if (edge.node) visit(static_cast<Node*>(edge.node.get()));
      }
    }
    std::ranges::sort(nodes, BySequence{});
    return nodes;
  }

  // Counts consumers, marks the paths to wanted gradients, and starts nodes without consumers.
  void start(const std::vector<Node*>& nodes) {
    for (Node* node : nodes) {
      node->run_.needed = captured_.empty() ? node->inputs.empty() : is_captured(*node);
      for (const GradientEdge& edge : node->inputs) {
        if (edge.node) node->run_.needed |= static_cast<Node*>(edge.node.get())->run_.needed;
      }
    }
    for (Node* node : nodes) {
      if (!node->run_.needed) continue;
      for (const GradientEdge& edge : node->inputs) {
        if (edge.node) ++static_cast<Node*>(edge.node.get())->run_.dependencies;
      }
    }
    for (Node* node : nodes) {
      if (node->run_.needed && node->run_.dependencies == 0) ready_.push(node);
    }
  }

  // Records the ops of a recomputed node, and delivers its gradients `dy` to them. They become part of the
  // run: their sequence numbers are higher than all others, so they run next, in the order that they would
  // have had in the place of `node`.
  void record_again(Node& node, std::span<Tensor> dy) {
    require(!options_.create_graph, node.info().name,
            "recomputed ops have no second derivative; build the graph inside a tandem::HigherOrder scope");
    const std::uint64_t newest = Node::newest();
    const TensorList results = node.record_again();
    ensure(results.size() == dy.size(), node.info().name, "gave {} results, then {}", dy.size(),
           results.size());
    const auto check_edge = [&](const GradientEdge& edge) {
      if (!edge.node || static_cast<Node*>(edge.node.get())->sequence() > newest) return;
      require(
          std::ranges::any_of(node.inputs, [&](const GradientEdge& e) { return e.node == edge.node; }),
          node.info().name,
          "the function reads a tensor with a gradient, made by {}, that is neither one of its inputs nor "
          "of its parameters; pass it to recomputed()",
          static_cast<Node*>(edge.node.get())->info().name);
    };
    for (const Tensor& result : results) {
      check_edge(result.edge());
      recorded_.push_back(result.edge());
    }
    const std::vector<Node*> added = nodes_behind(results);
    for (const Node* part : added)
      if (part->sequence() > newest) std::ranges::for_each(part->inputs, check_edge);
    start(added);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      Node* const producer = node_of(results[i]);
      if (dy[i].defined() && producer && producer->run_.needed)
        deliver(*producer, results[i].edge().output, std::move(dy[i]));
    }
  }

  void process(Node& node) {
    // Gradients of a recomputed node are rounded by the ops that it records.
    if (!node.is_recomputed() || is_captured(node)) capture(node);
    if (Leaf* leaf = as_leaf(node)) {
      finish_leaf(*leaf);
      return;
    }
    auto& dy = node.run_.gradients;
    const bool reached = std::ranges::any_of(dy, [](const Tensor& t) { return t.defined(); });
    const bool leads_on = std::ranges::any_of(node.inputs, [](const GradientEdge& e) {
      return e.node && static_cast<Node*>(e.node.get())->run_.needed;
    });
    if (!leads_on) {
      dy.clear();
      return;
    }
    std::vector<Tensor> dx(node.inputs.size());
    std::vector<Needs::Input> wanted(node.inputs.size());
    if (reached && node.is_recomputed()) {
      record_again(node, dy);
    } else if (reached) {
      offer_sinks(node, wanted);
      if (ObserverScope::innermost()) notify([&](OpObserver& o) { o.before_backward(node, dy); });
      node.backward(dy, dx, Needs(wanted, options_.create_graph));
      if (ObserverScope::innermost()) notify([&](OpObserver& o) { o.after_backward(node, dx); });
    }
    dy.clear();
    const bool retained = (options_.retain_graph || options_.create_graph) && node.sequence() <= newest_;
    if (!retained) node.release_saved();
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const GradientEdge& edge = node.inputs[i];
      if (!edge.node) continue;
      Node& producer = static_cast<Node&>(*edge.node);
      if (!producer.run_.needed) continue;
      if (dx[i].defined() && wanted[i].wanted) {
        check_gradient(node, producer.outputs[edge.output], dx[i]);
        if (wanted[i].sink.tensor.defined() && dx[i].is_same(wanted[i].sink.tensor)) {
          if (Leaf* leaf = as_leaf(producer); leaf && captured_.empty()) {
            if (!node.info().traits.marks_rows) leaf->mark_all_rows();
            leaf->mark_written();
          }
        } else {
          wanted[i].sink = {};
          deliver(producer, edge.output, std::move(dx[i]));
        }
      }
      dx[i] = {};
      wanted[i].sink = {};
      if (--producer.run_.dependencies > 0) continue;
      // Leaves are announced at once, so that communication may overlap with backward.
      if (as_leaf(producer)) {
        process(producer);
      } else {
        ready_.push(&producer);
      }
    }
  }

  // Offers each wanted gradient the buffer that it would be added to, at most once per buffer.
  void offer_sinks(Node& node, std::vector<Needs::Input>& wanted) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const GradientEdge& edge = node.inputs[i];
      if (!edge.node) continue;
      Node& producer = static_cast<Node&>(*edge.node);
      wanted[i].wanted = producer.run_.needed;
      if (!producer.run_.needed || options_.create_graph) continue;
      const bool repeated =
          std::any_of(node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const GradientEdge& e) { return e.node == edge.node && e.output == edge.output; });
      if (repeated) continue;
      const Tensor& slot = producer.run_.gradients[edge.output];
      if (slot.defined()) {
        // In 16 bits only the last contribution, because each direct addition rounds.
        const bool exact = !is_16bit(slot.dtype()) || producer.run_.dependencies == 1;
        if (exact && slot.storage()->use_count() == 1) wanted[i].sink = {slot, true};
      } else if (Leaf* leaf = as_leaf(producer); leaf && captured_.empty()) {
        wanted[i].sink = leaf->sink(node.info().traits.marks_rows);
      }
    }
  }

  void check_gradient(const Node& node, const OutputMeta& meta, const Tensor& gradient) const {
    ensure(gradient.shape() == meta.shape && gradient.device() == meta.device, node.info().name,
           "backward produced {} on {} for an input of {}{} on {}", to_string(gradient),
           to_string(gradient.device()), name_of(meta.dtype), to_string(meta.shape), to_string(meta.device));
  }

  // Adds `gradient` to the accumulated gradient of output `index` of `node`.
  void deliver(Node& node, std::uint32_t index, Tensor gradient) {
    const OutputMeta& meta = node.outputs[index];
    if (Leaf* leaf = as_leaf(node); leaf && captured_.empty()) {
      leaf->accumulate(gradient, options_.create_graph);
      return;
    }
    Tensor& slot = node.run_.gradients[index];
    if (options_.create_graph) {
      if (gradient.dtype() != meta.dtype) gradient = cast(gradient, meta.dtype);
      slot = slot.defined() ? add(slot, gradient) : gradient;
      return;
    }
    Backend& backend = backend_for(meta.device);
    if (!slot.defined()) {
      slot = std::move(gradient);
    } else if (slot.storage()->use_count() == 1 &&
               (slot.dtype() == DType::f32 || slot.dtype() == DType::f64)) {
      backend.cast(gradient, slot, /*accumulate=*/true);
    } else {
      // Shared or 16-bit: accumulates in a new wide buffer, rounded once at the end.
      const DType wide = wide_of(meta.dtype);
      const Tensor sum = Tensor::empty(meta.shape, {wide, meta.device});
      backend.cast(slot, sum);
      backend.cast(gradient, sum, /*accumulate=*/true);
      slot = sum;
    }
  }

  // Rounds a completed gradient to the dtype of its tensor and passes it to the requested inputs.
  void capture(Node& node) {
    for (std::size_t i = 0; i < node.run_.gradients.size(); ++i) {
      Tensor& slot = node.run_.gradients[i];
      if (slot.defined() && slot.dtype() != node.outputs[i].dtype) {
        const Tensor rounded = Tensor::empty(slot.shape(), {node.outputs[i].dtype, slot.device()});
        backend_for(slot.device()).cast(slot, rounded);
        slot = rounded;
      }
    }
    for (std::size_t i = 0; i < captured_.size(); ++i) {
      if (node_of(captured_[i]) == &node)
        captured_gradients_[i] = node.run_.gradients[captured_[i].edge().output];
    }
  }

  void finish_leaf(Leaf& leaf) {
    leaf.run_.gradients.clear();
    if (captured_.empty() && leaf.on_ready) leaf.on_ready(leaf);
  }

  BackwardOptions options_;
  std::span<const Tensor> captured_;
  TensorList captured_gradients_;
  std::uint64_t number_;
  std::uint64_t newest_ = Node::newest();  // node before the run; those recorded in it are never retained
  std::vector<GradientEdge> recorded_;     // keeps nodes that were recorded in the run
  std::priority_queue<Node*, std::vector<Node*>, BySequence> ready_;
};

namespace {

void check_outputs(std::span<const Tensor> outputs, std::span<const Tensor> seeds) {
  require(outputs.size() == seeds.size(), "backward", "{} outputs need as many output gradients, got {}",
          outputs.size(), seeds.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require(
        outputs[i].requires_grad(), "backward",
        "output {} ({}) was not recorded: no input of it requires a gradient, or it was made under NoGrad", i,
        to_string(outputs[i]));
    require(seeds[i].defined() && seeds[i].shape() == outputs[i].shape() && is_floating(seeds[i].dtype()) &&
                seeds[i].device() == outputs[i].device(),
            "backward",
            "output {} is {}, its gradient is {}; it must be floating, of the same shape and device", i,
            to_string(outputs[i]), to_string(seeds[i]));
  }
}

}  // namespace

void backward(const Tensor& loss, double seed, BackwardOptions options) {
  require(loss.defined() && loss.numel() == 1 && (loss.dtype() == DType::f32 || loss.dtype() == DType::f64),
          "backward",
          "the loss must be one f32 (or f64) number, got {}; reduce it with sum or mean, or give output "
          "gradients",
          to_string(loss));
  const Tensor gradient = Tensor::full(loss.shape(), seed, loss.options());
  backward(std::span(&loss, 1), std::span(&gradient, 1), options);
}

void backward(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
              BackwardOptions options) {
  check_outputs(outputs, output_gradients);
  Engine(options, {}).run(outputs, output_gradients);
}

TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> output_gradients,
                     std::span<const Tensor> inputs, BackwardOptions options) {
  check_outputs(outputs, output_gradients);
  require(!inputs.empty(), "gradients", "name at least one input");
  for (const Tensor& input : inputs)
    require(input.requires_grad(), "gradients", "input {} does not require a gradient", to_string(input));
  return Engine(options, inputs).run(outputs, output_gradients);
}

}  // namespace tandem
