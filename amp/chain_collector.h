// Gradients of backward passes by what lies between the tensors at which their scale may change.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "amp/gradient_histogram.h"
#include "amp/segmented_loss_scale.h"

namespace tandem::amp {

// What all backward passes have in common, from the loss to the input.
struct BackwardLinks {
  struct Link {
    std::string border;        // path of the module behind whose output it begins; of the first: "loss"
    ExponentHistogram behind;  // the gradient of that output; of the first: none
    std::vector<GradientCollector::Layer> layers;  // in the order of forward
    std::vector<std::string> parameters;           // whose uses lie in it
  };
  std::vector<Link> links;
};

// Active within its life, on its thread, like GradientCollector. Forward gets a border behind every module
// with one output; they change no value.
class ChainCollector final : public OpObserver, public nn::ModuleObserver {
 public:
  explicit ChainCollector(nn::Module& model);

  // Forward has given `loss`, and backward is next; and it has ended.
  void begin_backward(const Tensor& loss);
  void end_backward();

  // Of all backward passes together.
  std::vector<GradientCollector::Layer> layers() const;
  ExponentHistogram activations() const;
  ExponentHistogram weights() const;
  // Borders are those that every pass had, in the same order; where orders differ there are none.
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
  std::unordered_map<const Node*, std::string> crossed_;  // in the forward under way
  std::unordered_map<const Node*, std::size_t> expected_;
  std::vector<Pass> passes_;
  GradientCollector gradients_;
  ObserverScope observed_ops_;
  nn::ModuleObserverScope observed_modules_;
};

}  // namespace tandem::amp
