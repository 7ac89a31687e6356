// Borders of loss-scale segments: ops whose backward multiplies the only live gradient by a power of two.
// They are the identity in forward.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nn/module.h"

namespace tandem::amp {

// Name of the whole model in the gradient collector.
inline constexpr const char* kWholeModel = "(model)";

// Returns x with its gradient multiplied by 2^log2_factor in backward; x itself without a gradient. The
// result shares x's memory, and precision policies do not apply. Exact unless the gradient, which keeps its
// type, leaves that type's range.
Tensor scale_gradient(const Tensor& x, int log2_factor);
// log2 of such a node's factor; absent for nodes of other ops.
std::optional<int> gradient_scale_of(const Node& node);

// Borders of a tape from the loss to the leaves, in the order of backward: the nodes of scale_gradient whose
// tensor alone has a live gradient, and without a leaf that is used on both sides. Link 0 reaches from the
// loss to the first border, link i lies behind border i - 1.
struct BackwardChain {
  std::vector<const Node*> borders;
  std::unordered_map<const Node*, std::size_t> leaves;  // the link of each leaf's uses
};
BackwardChain chain_of(const Tensor& loss);

// The segments of a model's backward: the borders from the loss to the input, and the segments of parameters.
class SegmentedLossScale {
 public:
  struct Segment {
    // Path of the module at whose output it begins, "(model)" for the whole; ignored for the first.
    std::string border;
    int log2_scale = 0;  // relative to the loss scale; 0 for the first
    std::vector<std::string> parameters;
  };

  // Throws UserError for an unknown module or parameter. Valid as long as the model.
  SegmentedLossScale(nn::Module& model, const std::vector<Segment>& segments);

  // log2 of the scale of a parameter's gradient relative to the loss scale.
  int log2_scale_of(const Parameter& parameter) const;

 private:
  friend class BorderScope;
  struct Border {
    std::string path;
    std::size_t number;  // in the order of backward
    int log2_factor;
  };
  std::unordered_map<const nn::Module*, Border> borders_;
  std::unordered_map<const Node*, std::size_t> segments_;  // of leaves
  std::vector<int> scales_;                                // log2, of each segment
};

// Inserts the borders into forward passes within the scope.
class BorderScope final : public nn::ModuleObserver {
 public:
  // `borders`: null inserts none.
  explicit BorderScope(const SegmentedLossScale* borders);
  // Call with the loss of a forward before its backward. Throws UserError when the tape lacks a border or has
  // them in another order, or when a parameter lies in an unexpected segment, which would give wrong
  // gradients.
  void finish(const Tensor& loss) const;

  Tensor passed_on(nn::Module& module, const Tensor& output) override;

 private:
  const SegmentedLossScale* const borders_;
  std::vector<std::vector<const Node*>> crossed_;  // by number
  std::optional<nn::ModuleObserverScope> observed_;
};

}  // namespace tandem::amp
