#include "amp/gradient_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "amp/segmented_loss_scale.h"
#include "autograd/leaf.h"
#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/error.h"

namespace tandem::amp {

namespace {

// FP16: exponents of the largest magnitude that rounds to zero, the smallest normal, and the largest value.
constexpr int kFlushed = -25, kNormal = -14, kGreatest = 15;

}  // namespace

void ExponentHistogram::add(float value) {
  ++total_;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
  if (bits == 0) {
    ++zeros_;
    return;
  }
  if (bits >= 0x7f800000u) {
    ++non_finite_;
    return;
  }
  const bool subnormal = bits < 0x00800000u;
  const int exponent = subnormal ? kLowest + std::bit_width(bits) - 1 : static_cast<int>(bits >> 23) - 127;
  Bin& bin = bins_[index(exponent)];
  ++bin.count;
  bin.power += subnormal ? std::has_single_bit(bits) : (bits & 0x7fffffu) == 0;
  bin.top += !subnormal && (bits & 0x7fffffu) >= 0x7ff000u;
}

void ExponentHistogram::add(const Tensor& values, double scale) {
  const float factor = static_cast<float>(1.0 / scale);
  for (const float value : values.to_vector<float>()) add(value * factor);
}

void ExponentHistogram::add(const ExponentHistogram& other) {
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    bins_[i].count += other.bins_[i].count;
    bins_[i].power += other.bins_[i].power;
    bins_[i].top += other.bins_[i].top;
  }
  total_ += other.total_;
  zeros_ += other.zeros_;
  non_finite_ += other.non_finite_;
}

std::optional<int> ExponentHistogram::lowest() const {
  for (int e = kLowest; e <= kHighest; ++e)
    if (count(e) > 0) return e;
  return {};
}

std::optional<int> ExponentHistogram::highest() const {
  for (int e = kHighest; e >= kLowest; --e)
    if (count(e) > 0) return e;
  return {};
}

std::int64_t ExponentHistogram::flushed(int log2_scale) const {
  const int limit = kFlushed - log2_scale;
  std::int64_t sum = 0;
  for (int e = kLowest; e < std::min(limit, kHighest + 1); ++e) sum += count(e);
  return sum + (limit >= kLowest && limit <= kHighest ? bins_[index(limit)].power : 0);
}

std::int64_t ExponentHistogram::subnormal(int log2_scale) const {
  std::int64_t sum = 0;
  for (int e = kLowest; e < std::min(kNormal - log2_scale, kHighest + 1); ++e) sum += count(e);
  return sum - flushed(log2_scale);
}

std::int64_t ExponentHistogram::overflowed(int log2_scale) const {
  const int limit = kGreatest - log2_scale;
  std::int64_t sum = limit >= kLowest && limit <= kHighest ? bins_[index(limit)].top : 0;
  for (int e = std::max(limit + 1, kLowest); e <= kHighest; ++e) sum += count(e);
  return sum;
}

std::optional<int> ExponentHistogram::saving_scale(double share) const {
  const auto non_zero = static_cast<double>(total_ - zeros_ - non_finite_);
  std::optional<int> best;
  for (int k = 0; k <= kGreatest - kLowest && overflowed(k) == 0; ++k) {
    best = k;
    if (static_cast<double>(flushed(k)) <= share * non_zero) break;
  }
  return best;
}

GradientCollector::GradientCollector(nn::Module& model, double scale, bool of_segments)
    : base_(scale), of_segments_(of_segments), scale_(scale), observed_ops_(*this), observed_modules_(*this) {
  model.visit([&](const std::string& path, nn::Module& module) {
    paths_.emplace(&module, path.empty() ? "(model)" : path);
    for (const auto& [name, parameter] : module.own_parameters())
      parameters_.emplace(&parameter.leaf(), path.empty() ? "(model)" : path);
  });
}

GradientCollector::Layer& GradientCollector::layer_of(const std::string& name) {
  const auto found = std::ranges::find_if(layers_, [&](const Layer& layer) { return layer.name == name; });
  if (found != layers_.end()) return *found;
  layers_.push_back({.name = name});
  return layers_.back();
}

std::vector<GradientCollector::Layer> GradientCollector::layers() const {
  std::vector<Layer> result;
  for (const Layer& layer : layers_)
    if (layer.activations.total() + layer.weights.total() > 0) result.push_back(layer);
  return result;
}

ExponentHistogram GradientCollector::activations() const {
  ExponentHistogram sum;
  for (const Layer& layer : layers_) sum.add(layer.activations);
  return sum;
}

std::vector<GradientCollector::Layer> GradientCollector::take() {
  std::vector<Layer> taken = layers_;
  for (Layer& layer : layers_) layer.activations = layer.weights = {};
  return taken;
}

void GradientCollector::enter(nn::Module& module) {
  if (!recomputes()) scale_ = base_;  // forward: the next backward begins at its loss
  const auto found = paths_.find(&module);
  running_.push_back(found == paths_.end() ? "" : found->second);
}

void GradientCollector::leave(nn::Module&, const Tensor&) { running_.pop_back(); }

// A border does not belong to a layer; it only passes its gradient on.
void GradientCollector::after_forward(const OpInfo&, std::span<const Tensor>,
                                      std::span<const Tensor> outputs) {
  if (!outputs.empty() && outputs[0].requires_grad() && gradient_scale_of(*node_of(outputs[0]))) return;
  const std::string layer = running_.empty() ? "loss" : running_.back();
  for (const Tensor& output : outputs)
    if (output.defined() && output.requires_grad()) {
      layer_of(layer);
      ops_[node_of(output)] = layer;
    }
}

void GradientCollector::after_backward(const Node& node, std::span<const Tensor> input_gradients) {
  if (const auto log2 = gradient_scale_of(node)) {
    if (of_segments_) scale_ *= std::exp2(*log2);
    return;
  }
  for (std::size_t i = 0; i < input_gradients.size(); ++i) {
    const Tensor& gradient = input_gradients[i];
    if (!gradient.defined() || !is_floating(gradient.dtype())) continue;
    const auto parameter = parameters_.find(static_cast<const Node*>(node.inputs[i].node.get()));
    if (parameter != parameters_.end()) {
      layer_of(parameter->second).weights.add(gradient, scale_);
    } else if (const auto op = ops_.find(&node); op != ops_.end()) {
      layer_of(op->second).activations.add(gradient, scale_);
    }
  }
}

}  // namespace tandem::amp
