// Histograms of gradient exponents, and their representation in FP16 at a loss scale.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/observers.h"
#include "nn/module.h"

namespace tandem::amp {

// Counts of values by floor(log2 |value|). Answers about FP16 are exact: a value times 2^k rounds to zero
// when it is at most 2^-25 and to infinity from 65520 on.
class ExponentHistogram {
 public:
  static constexpr int kLowest = -149, kHighest = 127;  // exponents of f32 values, including subnormals

  // Adds every element of a floating tensor, divided by `scale`, a power of two.
  void add(const Tensor& values, double scale = 1.0);
  void add(float value);
  void add(const ExponentHistogram& other);

  std::int64_t total() const { return total_; }
  std::int64_t zeros() const { return zeros_; }
  std::int64_t non_finite() const { return non_finite_; }
  std::int64_t count(int exponent) const { return bins_[index(exponent)].count; }
  // Lowest and highest occurring exponent; absent without a finite non-zero value.
  std::optional<int> lowest() const;
  std::optional<int> highest() const;

  // Numbers of non-zero values that FP16 flushes to zero, stores as subnormals (with reduced precision), and
  // rounds to infinity after multiplication by 2^log2_scale.
  std::int64_t flushed(int log2_scale) const;
  std::int64_t subnormal(int log2_scale) const;
  std::int64_t overflowed(int log2_scale) const;
  // Smallest k >= 0 such that scale 2^k flushes at most `share` of the non-zero values and overflows none. If
  // there is none, the largest k without overflow; absent if even 0 overflows.
  std::optional<int> saving_scale(double share = 1e-3) const;

 private:
  struct Bin {
    std::int64_t count = 0;
    std::int64_t power = 0;  // exactly 2^exponent
    std::int64_t top = 0;    // at least (2 - 2^-11)·2^exponent, which FP16 rounds up
  };
  static std::size_t index(int exponent) { return static_cast<std::size_t>(exponent - kLowest); }

  std::array<Bin, kHighest - kLowest + 1> bins_{};
  std::int64_t total_ = 0, zeros_ = 0, non_finite_ = 0;
};

// Collects the gradients of a backward pass by layer. Active during its lifetime on its thread; forward must
// run within it too, because it assigns ops to layers.
class GradientCollector final : public OpObserver, public nn::ModuleObserver {
 public:
  struct Layer {
    std::string name;               // path of the module; "loss" outside the model
    ExponentHistogram activations;  // gradients of its ops' inputs
    ExponentHistogram weights;      // gradients of its own parameters from each backward
  };

  // Gradients are divided by `scale`, the seed of backward, and, unless `of_segments` is false, by the
  // factors of loss-scale segments (amp/segmented_loss_scale.h).
  explicit GradientCollector(nn::Module& model, double scale = 1.0, bool of_segments = true);
  ~GradientCollector() override = default;

  // In the order of forward; without layers that have no gradient.
  std::vector<Layer> layers() const;
  // Activation gradients over all layers.
  ExponentHistogram activations() const;
  // The gradients collected since the last call, for all layers so far in their current numbering.
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
  double scale_;  // of the current segment of backward
  std::unordered_map<const nn::Module*, std::string> paths_;
  std::unordered_map<const Node*, std::string> parameters_;  // leaf → path of the owning module
  std::unordered_map<const Node*, std::string> ops_;
  std::vector<std::string> running_;
  std::vector<Layer> layers_;
  ObserverScope observed_ops_;
  nn::ModuleObserverScope observed_modules_;
};

}  // namespace tandem::amp
