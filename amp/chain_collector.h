// Gradients of backward passes, grouped by the links between possible borders of loss-scale segments.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "amp/gradient_histogram.h"
#include "amp/segmented_loss_scale.h"

namespace tandem::amp {

// Links common to all backward passes, from the loss to the input.
struct BackwardLinks {
  struct Link {
    std::string border;        // path of the module at whose output it begins; "loss" for the first
    ExponentHistogram behind;  // gradient of that output; empty for the first
    std::vector<GradientCollector::Layer> layers;  // in the order of forward
    std::vector<std::string> parameters;           // used in this link
  };
  std::vector<Link> links;
};

// Active during its lifetime on its thread, like GradientCollector. Inserts a border behind every module with
// one output in forward; borders change no values.
class ChainCollector final : public OpObserver, public nn::ModuleObserver {
 public:
  explicit ChainCollector(nn::Module& model);

  // Call after forward with its `loss`, before backward, and after backward.
  void begin_backward(const Tensor& loss);
  void end_backward();

  // Over all backward passes.
  std::vector<GradientCollector::Layer> layers() const;
  // Borders that all passes have in the same order; none if orders differ.
  BackwardLinks links() const;

  Tensor passed_on(nn::Module& module, const Tensor& output) override;
  void after_backward(const Node& node, std::span<const Tensor> input_gradients) override;

 private:
  using Layers = std::vector<GradientCollector::Layer>;
  struct Pass {
    std::vector<std::string> borders;
    std::vector<Layers> links;  // one more than borders
    std::vector<ExponentHistogram> behind;
    std::unordered_map<const Node*, std::size_t> leaves;
  };
  std::vector<std::string> borders_of_all() const;

  nn::Module& model_;
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::unordered_map<const Node*, std::string> crossed_;  // in the current forward
  std::unordered_map<const Node*, std::size_t> expected_;
  std::vector<Pass> passes_;
  GradientCollector gradients_;
  ObserverScope observed_ops_;
  nn::ModuleObserverScope observed_modules_;
};

}  // namespace tandem::amp
