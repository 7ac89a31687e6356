// Exponents of gradients, and what FP16 would make of them at a loss scale.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/observers.h"
#include "nn/module.h"

namespace tandem::amp {

// Counts of values by floor(log2 |value|). What is asked of it for FP16 is exact, not an estimate from the
// exponent: a value times 2^k rounds to zero when it is at most 2^-25 and to infinity from 65520 on.
class ExponentHistogram {
 public:
  static constexpr int kLowest = -149, kHighest = 127;  // exponents of f32 values, subnormal ones included

  // Adds every element of a floating tensor, divided by `scale`, a power of two.
  void add(const Tensor& values, double scale = 1.0);
  void add(float value);
  void add(const ExponentHistogram& other);

  std::int64_t total() const { return total_; }
  std::int64_t zeros() const { return zeros_; }
  std::int64_t non_finite() const { return non_finite_; }
  std::int64_t count(int exponent) const { return bins_[index(exponent)].count; }
  // Lowest and highest exponent that occurs; absent when there is no finite value but zero.
  std::optional<int> lowest() const;
  std::optional<int> highest() const;

  // Non-zero values that FP16 rounds to zero, holds with less than its full precision (as subnormals), and
  // rounds to infinity, when they are multiplied by 2^log2_scale first.
  std::int64_t flushed(int log2_scale) const;
  std::int64_t subnormal(int log2_scale) const;
  std::int64_t overflowed(int log2_scale) const;
  // Smallest k >= 0 such that at scale 2^k at most `share` of the non-zero values are flushed and none
  // overflows; when there is none, the greatest k that overflows nothing, absent when even 0 does.
  std::optional<int> saving_scale(double share = 1e-3) const;

 private:
  struct Bin {
    std::int64_t count = 0;
    std::int64_t power = 0;  // exactly 2^exponent
    std::int64_t top = 0;    // at least (2 - 2^-11)·2^exponent: rounded up by FP16
  };
  static std::size_t index(int exponent) { return static_cast<std::size_t>(exponent - kLowest); }

  std::array<Bin, kHighest - kLowest + 1> bins_{};
  std::int64_t total_ = 0, zeros_ = 0, non_finite_ = 0;
};

// Gathers the gradients of a backward pass by layer. Active within its life, on its thread; forward must run
// within it too, which tells the layer of each op.
class GradientCollector final : public OpObserver, public nn::ModuleObserver {
 public:
  struct Layer {
    std::string name;               // path of the module; "loss" outside of the model
    ExponentHistogram activations;  // gradients that ops of the layer hand back to their inputs
    ExponentHistogram weights;      // gradients of its own parameters, as each backward gave them
  };

  // Gradients are divided by `scale`, with which backward is seeded, and by what borders between segments of
  // the loss scale (amp/segmented_loss_scale.h) made of it; with `of_segments` false not by the latter.
  explicit GradientCollector(nn::Module& model, double scale = 1.0, bool of_segments = true);
  ~GradientCollector() override = default;

  // In the order of forward; layers without a gradient are absent.
  std::vector<Layer> layers() const;
  // Of all layers together.
  ExponentHistogram activations() const;
  ExponentHistogram weights() const;
  // What was gathered since the last call, of all layers so far, and as they are numbered then.
  std::vector<Layer> take();

  void enter(nn::Module& module) override;
  void leave(nn::Module& module, const Tensor& output) override;
  void after_forward(const OpInfo& info, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs) override;
  void after_backward(const Node& node, std::span<const Tensor> input_gradients) override;

 private:
  Layer& layer_of(const std::string& name);

  const double base_;
  const bool of_segments_;
  double scale_;  // of the segment that the backward under way is in
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::unordered_map<const Node*, std::string> parameters_;  // of leaves: the path of the module that owns it
  std::unordered_map<const Node*, std::string> ops_;
  std::vector<std::string> running_;
  std::vector<Layer> layers_;
  ObserverScope observed_ops_;
  nn::ModuleObserverScope observed_modules_;
};

}  // namespace tandem::amp
