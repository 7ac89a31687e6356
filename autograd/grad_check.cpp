#include "autograd/grad_check.h"

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/leaf.h"
#include "autograd/modes.h"
#include "core/error.h"
#include "core/random.h"

namespace tandem {

namespace {

using ListFunction = std::function<TensorList(const TensorList&)>;
using Values = std::vector<double>;

// Random values with a magnitude in [0.5, 1.5), so that every output has weight.
Tensor random_like(const Shape& shape, Device device, std::uint64_t seed, std::uint32_t call) {
  RandomStream stream({.seed = seed, .call = call});
  Values values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) {
    const double magnitude = stream.uniform(0.5f, 1.5f);
    value = stream.uniform() < 0.5f ? -magnitude : magnitude;
  }
  return Tensor::from(values, shape, device);
}

TensorList leaves_of(const TensorList& inputs) {
  TensorList leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.defined() && is_floating(input.dtype()) ? leaf(input.clone()) : input.detach());
  }
  return leaves;
}

std::vector<Values> values_of(const TensorList& tensors) {
  std::vector<Values> values;
  for (const Tensor& tensor : tensors)
    values.push_back(tensor.defined() ? tensor.to_vector<double>() : Values{});
  return values;
}

void check_dtypes(const TensorList& tensors, const char* what) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    require(!tensors[i].defined() || !is_floating(tensors[i].dtype()) || tensors[i].dtype() == DType::f64,
            "grad_check", "finite differences need f64, {} {} is {}; cast it first", what, i,
            to_string(tensors[i]));
  }
}

// d outputs·weights / d inputs, one entry per input; zeros where an output does not depend on it.
std::vector<Values> analytic_gradients(const TensorList& outputs, const TensorList& weights,
                                       const TensorList& inputs, bool create_graph) {
  TensorList recorded, seeds, wanted;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
    recorded.push_back(outputs[i]);
    seeds.push_back(weights[i]);
  }
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  const TensorList found = recorded.empty() || wanted.empty()
                               ? TensorList(wanted.size())
                               : gradients(recorded, seeds, wanted, {.create_graph = create_graph});
  std::vector<Values> result;
  std::size_t next = 0;
  for (const Tensor& input : inputs) {
    Values values;
    if (input.requires_grad()) {
      const Tensor& gradient = found[next++];
      values = gradient.defined() ? gradient.to_vector<double>()
                                  : Values(static_cast<std::size_t>(input.numel()), 0.0);
    }
    result.push_back(std::move(values));
  }
  return result;
}

class Checker {
 public:
  // `create_graph`: check the gradient of a taped backward.
  Checker(const ListFunction& function, const TensorList& inputs, const GradCheckOptions& options,
          bool create_graph = false)
      : function_(function), inputs_(inputs), options_(options), create_graph_(create_graph) {}

  GradCheckReport run() {
    const TensorList leaves = leaves_of(inputs_);
    const TensorList outputs = function_(leaves);
    check_dtypes(outputs, "output");
    TensorList weights;
    for (const Tensor& output : outputs) {
      weights.push_back(random_like(output.shape(), output.device(), options_.seed,
                                    static_cast<std::uint32_t>(weights.size())));
    }
    weights_ = values_of(weights);
    if (values_of(outputs) != values_of(function_(leaves_of(inputs_))) && !has_nan(outputs)) {
      return {.passed = false, .note = "the function gives different values for the same inputs"};
    }
    const auto analytic = analytic_gradients(outputs, weights, leaves, create_graph_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (leaves[i].requires_grad()) check_input(i, analytic[i]);
    }
    return report_;
  }

 private:
  static bool has_nan(const TensorList& tensors) {
    for (const Values& values : values_of(tensors)) {
      for (const double value : values) {
        if (std::isnan(value)) return true;
      }
    }
    return false;
  }

  void check_input(std::size_t input, const Values& analytic) {
    Values values = inputs_[input].to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double centre = values[i];
      // Differences are divided by the actual step after rounding.
      const double above = centre + options_.eps, below = centre - options_.eps;
      values[i] = above;
      const auto high = evaluate(input, values);
      values[i] = below;
      const auto low = evaluate(input, values);
      values[i] = centre;
      compare(input, static_cast<Index>(i), analytic[i], weighted_difference(high, low) / (above - below));
    }
  }

  std::vector<Values> evaluate(std::size_t input, const Values& values) const {
    TensorList inputs = inputs_;
    inputs[input] = Tensor::from(values, inputs_[input].shape(), inputs_[input].device());
    return values_of(function_(leaves_of(inputs)));
  }

  // Subtracts first, so that large unchanged outputs cancel exactly.
  double weighted_difference(const std::vector<Values>& high, const std::vector<Values>& low) const {
    double sum = 0.0;
    for (std::size_t o = 0; o < weights_.size(); ++o) {
      for (std::size_t i = 0; i < weights_[o].size(); ++i) sum += weights_[o][i] * (high[o][i] - low[o][i]);
    }
    return sum;
  }

  void compare(std::size_t input, Index element, double analytic, double numerical) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double error = std::abs(analytic - numerical);
    if (std::isnan(error)) error = kInfinity;
    const double excess = error / (options_.atol + options_.rtol * std::abs(numerical));
    ++report_.compared;
    report_.max_error = std::max(report_.max_error, error);
    if (!(excess <= 1.0)) report_.passed = false;
    if (report_.input >= 0 && !(excess > worst_)) return;
    worst_ = std::isnan(excess) ? kInfinity : excess;
    report_.input = static_cast<int>(input);
    report_.element = element;
    report_.analytic = analytic;
    report_.numerical = numerical;
  }

  const ListFunction& function_;
  const TensorList& inputs_;
  const GradCheckOptions& options_;
  const bool create_graph_;
  std::vector<Values> weights_;
  GradCheckReport report_;
  double worst_ = 0.0;
};

// (x…, v) ↦ d function(x)·v / d x, taped.
TensorList taped_gradients(const DifferentiableFunction& function, const TensorList& inputs) {
  const TensorList points(inputs.begin(), inputs.end() - 1);
  const Tensor output = function(points);
  TensorList wanted;
  for (const Tensor& point : points) {
    if (point.requires_grad()) wanted.push_back(point);
  }
  TensorList found(wanted.size());
  if (output.requires_grad() && !wanted.empty())
    found = gradients(std::span(&output, 1), std::span(&inputs.back(), 1), wanted, {.create_graph = true});
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) found[i] = Tensor::zeros(wanted[i].shape(), wanted[i].options());
  }
  return found;
}

}  // namespace

std::string to_string(const GradCheckReport& report) {
  std::string text = report.passed ? "passed" : "failed";
  if (!report.note.empty()) text += ": " + report.note;
  if (report.input >= 0) {
    text += fmt::format(
        ": input {}, element {}: analytic {:.9g}, numerical {:.9g} ({} elements, largest error {:.3g})",
        report.input, report.element, report.analytic, report.numerical, report.compared, report.max_error);
  }
  return text;
}

GradCheckReport grad_check(const DifferentiableFunction& function, const TensorList& inputs,
                           const GradCheckOptions& options) {
  check_dtypes(inputs, "input");
  const GradMode recording(true);
  return Checker([&](const TensorList& xs) { return TensorList{function(xs)}; }, inputs, options).run();
}

GradCheckReport grad_grad_check(const DifferentiableFunction& function, const TensorList& inputs,
                                const GradCheckOptions& options) {
  check_dtypes(inputs, "input");
  const GradMode recording(true);
  const HigherOrder differentiable;
  // A wrong taped gradient may be differentiated consistently, so it is first compared with the function.
  const ListFunction once = [&](const TensorList& xs) { return TensorList{function(xs)}; };
  GradCheckReport first = Checker(once, inputs, options, /*create_graph=*/true).run();
  if (!first.passed) {
    first.note = "the first gradient under create_graph" + (first.note.empty() ? "" : ": " + first.note);
    return first;
  }
  const Tensor output = function(inputs);
  TensorList extended = inputs;
  extended.push_back(random_like(output.shape(), output.device(), options.seed, /*call=*/1u << 16));
  return Checker([&](const TensorList& xs) { return taped_gradients(function, xs); }, extended, options)
      .run();
}

}  // namespace tandem
