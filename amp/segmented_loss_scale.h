// Borders between segments of the loss scale: where backward multiplies the one gradient that it has at hand
// by a power of two. Forward does nothing there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nn/module.h"

namespace tandem::amp {

// As the collector of gradients names it.
inline constexpr const char* kWholeModel = "(model)";

// x, of whose gradient backward makes 2^log2_factor times as much; x itself where it has no gradient. The
// result shares its storage and its place in memory, and no precision applies. Exact unless what is stored
// leaves the range of the type: the gradient has the one that it came in.
Tensor scale_gradient(const Tensor& x, int log2_factor);
// What such a node multiplies by (log2); absent for nodes of other ops.
std::optional<int> gradient_scale_of(const Node& node);

// A tape from its loss to its leaves, in the order of backward, by its borders: the nodes of scale_gradient
// whose tensor alone has a gradient when its turn comes, and that no leaf has uses on both sides of. Links
// are what lies between them: link 0 from the loss to the first border, link i behind border i - 1.
struct BackwardChain {
  std::vector<const Node*> borders;
  std::unordered_map<const Node*, std::size_t> leaves;  // the link that each leaf is used in
};
BackwardChain chain_of(const Tensor& loss);

// The segments of a model's backward: the borders, from the loss to the input, and where parameters belong.
class SegmentedLossScale {
 public:
  struct Segment {
    // Path of the module behind whose output it begins, "(model)" of the whole; of the first not looked at.
    std::string border;
    int log2_scale = 0;  // beside the loss scale: 0 of the first
    std::vector<std::string> parameters;
  };

  // Throws UserError for a module or parameter that the model does not have. Valid as long as the model.
  SegmentedLossScale(nn::Module& model, const std::vector<Segment>& segments);

  // log2 of what the gradient of a parameter carries beside the loss scale.
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

// Forward passes in the scope have the borders.
class BorderScope final : public nn::ModuleObserver {
 public:
  explicit BorderScope(const SegmentedLossScale& borders);
  // To be called with the loss of a forward before its backward: throws UserError where the tape does not
  // have each border once and in order, or a parameter lies in another segment than it is said to, which
  // would give wrong gradients.
  void finish(const Tensor& loss) const;

  Tensor passed_on(nn::Module& module, const Tensor& output) override;

 private:
  const SegmentedLossScale& borders_;
  std::vector<std::vector<const Node*>> crossed_;  // by number
  nn::ModuleObserverScope observed_;
};

}  // namespace tandem::amp
