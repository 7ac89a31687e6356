#include "amp/lint.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "amp/gradient_histogram.h"
#include "amp/planned_policy.h"
#include "amp/watched_forward.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/norm_ops.h"
#include "autograd/ops/reduce_ops.h"

namespace tandem::amp {

namespace {

// Limits of a type: overflow, underflow, smallest normal, largest exact integer, half the step below 1.
struct TypeLimits {
  double infinite, zero, normal, integers, half_step;
};

TypeLimits limits_of(DType type) {
  if (type == DType::bf16)
    return {
        .infinite = 0x1.ffp127, .zero = 0x1p-134, .normal = 0x1p-126, .integers = 256, .half_step = 0x1p-9};
  return {.infinite = 65520, .zero = 0x1p-25, .normal = 0x1p-14, .integers = 2048, .half_step = 0x1p-12};
}

constexpr double kGreatestSum = 65504.0, kGreatestCalm = 512.0, kGreatestFlushed = 1e-3;

// Whether a watched op is one of these.
template <class... Ops>
bool is_call_of(const WatchedOp* op) {
  return op && ((op->info == &Ops::info) || ...);
}

// Largest |mean|/deviation over groups of strided elements; ignores groups without deviation.
double centring(const Tensor& x, Index groups, Index stride_of_group, Index stride, Index count) {
  const std::vector<float> values = x.to_vector<float>();
  double greatest = 0.0;
  for (Index group = 0; group < groups; ++group) {
    double mean = 0.0, squares = 0.0;
    for (Index i = 0; i < count; ++i) {
      const double value = values[static_cast<std::size_t>(group * stride_of_group + i * stride)];
      const double delta = value - mean;  // Welford
      mean += delta / static_cast<double>(i + 1);
      squares += delta * (value - mean);
    }
    const double deviation = std::sqrt(squares / static_cast<double>(count));
    if (deviation > 0.0) greatest = std::max(greatest, std::abs(mean) / deviation);
  }
  return greatest;
}

double centring_of_all(const Tensor& x) { return centring(x, 1, 0, 1, x.numel()); }
double centring_by_channel(const Tensor& x) {
  const Index channels = x.size(-1);
  return centring(x, channels, 1, channels, x.numel() / std::max<Index>(channels, 1));
}
double centring_by_row(const Tensor& x) {
  const Index row = x.size(-1);
  return centring(x, x.numel() / std::max<Index>(row, 1), row, 1, row);
}

class Linter {
 public:
  explicit Linter(const WatchedForward& forward) : forward_(forward) {}

  std::vector<LintLine> run() {
    for (const WatchedOp& op : forward_.ops()) {
      op_ = &op;
      constants();
      if (!op.outputs.empty() && op.outputs.front().defined() && !op.inputs.empty()) {
        exponential();
        square();
        reciprocal();
        saturation();
        sums();
        variance();
        deviation();
        loss();
      }
      for (const Tensor& input : op.inputs) given(input);
      for (const Tensor& output : op.outputs) range(output);
    }
    weights();
    return std::move(lines_);
  }

 private:
  using Name = std::tuple<const void*, std::size_t, Index>;

  template <class... Ops>
  bool is() const {
    return is_call_of<Ops...>(op_);
  }
  const Tensor& in(std::size_t i = 0) const { return op_->inputs[i]; }
  const Tensor& out() const { return op_->outputs.front(); }
  std::optional<DType> out_type() const {
    if (op_->output_types.empty() || !is_16bit(op_->output_types.front())) return std::nullopt;
    return op_->output_types.front();
  }
  static bool readable(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

  // Reports only the first of several calls of an op by one module.
  void add(LintRule rule, double value, DType type, std::string what, std::string way_out) {
    const bool again = std::ranges::any_of(lines_, [&](const LintLine& line) {
      return line.rule == rule && rule != LintRule::weights && line.key.path == op_->key.path &&
             line.key.op == op_->key.op;
    });
    if (again) return;
    lines_.push_back({.rule = rule,
                      .key = op_->key,
                      .value = value,
                      .dtype = type,
                      .what = std::move(what),
                      .way_out = std::move(way_out)});
  }

  // Reports a tensor once; the `range` rule then skips it and its consequences.
  void tell(const Tensor& tensor) { told_.insert({tensor.storage().get(), tensor.offset(), tensor.numel()}); }
  bool told(const Tensor& tensor) const {
    return told_.contains({tensor.storage().get(), tensor.offset(), tensor.numel()});
  }

  void constants() {
    const auto type = out_type();
    if (!type) return;
    const TypeLimits limits = limits_of(*type);
    for (const ScalarOfOp& scalar : op_->scalars) {
      const double magnitude = std::abs(scalar.value);
      const bool added = scalar.use == ScalarOfOp::Use::added, bound = is<ops::Clamp>();
      if (magnitude >= limits.infinite && !bound) {
        const bool mask = scalar.value < 0.0 && scalar.use != ScalarOfOp::Use::factor;
        add(mask ? LintRule::mask : LintRule::constant, scalar.value, *type,
            fmt::format("its constant {:g} is infinite in {}", scalar.value, name_of(*type)),
            mask ? "mask with masked_softmax, or use -65504" : "use a smaller one, or run the op in FP32");
        tell(out());
      } else if (added && scalar.value > 0.0 && magnitude <= limits.zero) {
        add(LintRule::epsilon, scalar.value, *type,
            fmt::format("its constant {:g} is zero in {}", scalar.value, name_of(*type)),
            fmt::format("use at least {:.1e}, or run the op in FP32", limits.normal));
      } else if (added && scalar.value > 0.0 && magnitude < limits.normal) {
        add(LintRule::subnormal, scalar.value, *type,
            fmt::format("its constant {:g} is a subnormal of {}, {:.5g}", scalar.value, name_of(*type),
                        Tensor::scalar(scalar.value, {.dtype = *type}).item()),
            fmt::format("use at least {:.1e}, or run the op in FP32", limits.normal));
      }
    }
  }

  void exponential() {
    const auto type = forward_.stored(out());
    if (!type || !is<ops::Exp, ops::Expm1>()) return;
    const TypeLimits limits = limits_of(*type);
    const ValueRange& x = forward_.range(in());
    const double above = std::log(limits.infinite), below = std::log(limits.zero);
    const char* const way_out = "subtract the maximum first (softmax, logsumexp), or keep the result in FP32";
    if (x.high > above) {
      add(LintRule::exponential, x.high, *type,
          fmt::format("its input reaches {:.4g}, and the result is infinite in {} above {:.2f}", x.high,
                      name_of(*type), above),
          way_out);
      tell(out());
    } else if (is<ops::Exp>() && x.low < below) {
      add(LintRule::exponential, x.low, *type,
          fmt::format("its input falls to {:.4g}, and the result is zero in {} below {:.2f}", x.low,
                      name_of(*type), below),
          way_out);
      tell(out());
    }
  }

  void square() {
    const auto type = forward_.stored(out());
    const bool squares = is<ops::Square, ops::PowScalar>() ||
                         (is<ops::Mul>() && op_->inputs.size() == 2 && in().is_same(in(1)));
    if (!type || !squares) return;
    const double limit = limits_of(*type).infinite;
    const ValueRange &x = forward_.range(in()), &y = forward_.range(out());
    if (x.amax() < 1.0f || y.amax() < limit) return;
    add(LintRule::square, x.amax(), *type,
        fmt::format("its input reaches {:.4g}, and the result {:.4g}, infinite in {}{}", x.amax(), y.amax(),
                    name_of(*type),
                    is<ops::PowScalar>() ? "" : fmt::format(" from {:.2f} on", std::sqrt(limit))),
        "scale the input down first, or keep the result in FP32");
    tell(out());
  }

  void reciprocal() {
    const auto type = forward_.stored(out());
    if (!type || !is<ops::Reciprocal, ops::Rsqrt, ops::ScalarDiv, ops::Div>()) return;
    const double limit = limits_of(*type).infinite;
    const Tensor& divisor = is<ops::Div>() ? in(1) : in();
    const ValueRange &x = forward_.range(divisor), &y = forward_.range(out());
    if (y.amax() < limit) return;
    if (forward_.stored(divisor) && x.amax() >= limit) return;
    add(LintRule::reciprocal, x.least, *type,
        fmt::format("its divisor falls to {:.3g}, and the result reaches {:.3g}, infinite in {}", x.least,
                    y.amax(), name_of(*type)),
        fmt::format("keep the divisor above {:.3g}, or the result in FP32", 1.0 / limit));
    tell(out());
  }

  // y of log(1 - y): the input of the subtraction, for both -y + 1 and log1p(-y).
  const Tensor* complement() const {
    const WatchedOp* const maker = forward_.maker_of(in());
    if (!maker || maker->inputs.empty()) return nullptr;
    if (is<ops::Log1p>()) return is_call_of<ops::Neg>(maker) ? &maker->inputs.front() : nullptr;
    if (!is<ops::Log>()) return nullptr;
    const bool one = !maker->scalars.empty() && maker->scalars.front().value == 1.0;
    if (is_call_of<ops::ScalarSub>(maker) && one) return &maker->inputs.front();
    if (!is_call_of<ops::AddScalar>(maker) || !one) return nullptr;
    const WatchedOp* const inner = forward_.maker_of(maker->inputs.front());
    return is_call_of<ops::Neg>(inner) ? &inner->inputs.front() : nullptr;
  }

  void saturation() {
    if (!is<ops::Log, ops::Log1p>()) return;
    const Tensor* const y = complement();
    const WatchedOp* const maker = y ? forward_.maker_of(*y) : nullptr;
    if (!is_call_of<ops::Sigmoid, ops::Tanh>(maker)) return;
    const auto type = forward_.stored(*y);
    if (!type) return;
    const double half = limits_of(*type).half_step;
    const bool sigmoid = is_call_of<ops::Sigmoid>(maker);
    const double above = sigmoid ? std::log(1.0 / half - 1.0) : 0.5 * std::log(2.0 / half - 1.0);
    const ValueRange& x = forward_.range(maker->inputs.front());
    if (x.high <= above) return;
    add(LintRule::saturation, x.high, *type,
        fmt::format("{}({:.4g}) rounds to 1 in {}, like all inputs above {:.2f}, and log(1 - 1) is infinite",
                    maker->info->name, x.high, name_of(*type), above),
        "use a loss of logits (bce_with_logits, log_softmax)");
    tell(out());
  }

  // The 16-bit sum that the logarithm's input comes from, with constants added.
  const WatchedOp* sum_below() const {
    const WatchedOp* maker = forward_.maker_of(in());
    while (is_call_of<ops::AddScalar, ops::MulScalar, ops::DivScalar, ops::Clamp, ops::Cast>(maker))
      maker = forward_.maker_of(maker->inputs.front());
    return is_call_of<ops::Sum, ops::Mean, ops::CumSum>(maker) ? maker : nullptr;
  }

  void sums() {
    if (is<ops::Log, ops::Log1p>()) {
      const WatchedOp* const sum = sum_below();
      const auto type = sum ? forward_.stored(sum->outputs.front()) : std::nullopt;
      if (type)
        add(LintRule::log_of_sum, forward_.range(in()).amax(), *type,
            fmt::format("it reads a {} rounded to {}", sum->info->name, name_of(*type)),
            "use logsumexp, or keep the sum in FP32");
      return;
    }
    const auto type = out_type();
    const bool own = op_->info->traits.kind == OpKind::other;  // may be a sum
    if (!type || !(is<ops::Sum, ops::CumSum>() || own) || !readable(in()) || !readable(out())) return;
    const Index n = is<ops::CumSum>() ? in().size(-1) : in().numel() / std::max<Index>(out().numel(), 1);
    const double bound = static_cast<double>(n) * static_cast<double>(forward_.range(in()).amax());
    const double limit = *type == DType::f16 ? kGreatestSum : limits_of(*type).infinite;
    if (n > 1 && bound > limit) {
      add(LintRule::sum, bound, *type,
          fmt::format("a sum of {} values of up to {:.4g} may exceed {:.5g} in {}", n,
                      forward_.range(in()).amax(), limit, name_of(*type)),
          "keep its result in FP32 (rule fp32), or divide first");
      tell(out());
    } else if (own && static_cast<double>(n) > limits_of(*type).integers) {
      add(LintRule::sum, static_cast<double>(n), *type,
          fmt::format(
              "a sum of {} values in {}, if its kernel accumulates in that type: from {:g} on addends "
              "are lost",
              n, name_of(*type), limits_of(*type).integers),
          "accumulate in FP32, or give the op the rule fp32");
    }
  }

  // x of mean(x²).
  const Tensor* squared_mean(const Tensor& tensor) const {
    const WatchedOp* const mean = forward_.maker_of(tensor);
    if (!is_call_of<ops::Mean>(mean)) return nullptr;
    const WatchedOp* const square = forward_.maker_of(mean->inputs.front());
    return square ? square_of(*square) : nullptr;
  }
  static const Tensor* square_of(const WatchedOp& op) {
    if (is_call_of<ops::Square, ops::PowScalar>(&op)) return &op.inputs.front();
    return is_call_of<ops::Mul>(&op) && op.inputs[0].is_same(op.inputs[1]) ? &op.inputs.front() : nullptr;
  }

  void variance() {
    if (!is<ops::Sub>()) return;
    const Tensor* const x = squared_mean(in(0));
    const WatchedOp* const subtracted = forward_.maker_of(in(1));
    const Tensor* const mean = subtracted ? square_of(*subtracted) : nullptr;
    if (!x || !mean) return;
    const WatchedOp* const of = forward_.maker_of(*mean);
    if (!is_call_of<ops::Mean>(of) || !of->inputs.front().is_same(*x)) return;
    auto type = forward_.stored(*x);
    for (const Tensor* part : {&in(0), &in(1), mean})
      if (!type) type = forward_.stored(*part);
    if (!type) return;
    const double limit = 1.0 / std::sqrt(2.0 * limits_of(*type).half_step), ratio = centring_of_all(*x);
    if (ratio <= limit) return;
    add(LintRule::variance, ratio, *type,
        fmt::format("mean(x²) - mean(x)² with a mean of {:.0f} deviations: cancels completely in {} from "
                    "{:.0f} on",
                    ratio, name_of(*type), limit),
        "use var, a two-pass algorithm");
  }

  void deviation() {
    if (!is<ops::BatchNormTrain, ops::LayerNorm, ops::GroupNorm, ops::Var>()) return;
    const auto type = forward_.stored(in());
    if (!type || in().numel() == 0 || in().rank() == 0) return;
    const double limit = limits_of(*type).integers;
    const double ratio = is<ops::LayerNorm>() ? centring_by_row(in())
                         : is<ops::Var>()     ? centring_of_all(in())
                                              : centring_by_channel(in());
    if (ratio <= limit) return;
    add(LintRule::deviation, ratio, *type,
        fmt::format(
            "it reads values with a mean of {:.0f} deviations: stored in {} they lose their deviation from "
            "{:g} on",
            ratio, name_of(*type), limit),
        "subtract the mean first, or keep them in FP32");
  }

  void loss() {
    if (op_->key.path != kOutsideModel ||
        !is<ops::Exp, ops::Expm1, ops::Log, ops::Log1p, ops::Pow, ops::PowScalar, ops::Div, ops::ScalarDiv,
            ops::Reciprocal, ops::Rsqrt>())
      return;
    for (std::size_t i = 0; i < op_->inputs.size(); ++i) {
      if (!is_16bit(op_->input_types[i]) || !readable(in(i))) continue;
      add(LintRule::loss, forward_.range(in(i)).amax(), op_->input_types[i],
          fmt::format("it reads values rounded to {}", name_of(op_->input_types[i])),
          "cast to f32 first, or use one of the losses, which compute in FP32");
      return;
    }
  }

  // Tensors that no op made: data, tables, positions.
  void given(const Tensor& tensor) {
    const auto type = forward_.stored(tensor);
    if (!type || forward_.maker_of(tensor) || told(tensor)) return;
    const TypeLimits limits = limits_of(*type);
    const ValueRange& values = forward_.range(tensor);
    const std::string path = forward_.parameter(tensor);
    const std::string name = path.empty() ? std::string("its input") : path;
    if (values.amax() >= limits.infinite) {
      const bool mask = values.low <= -limits.infinite && path.empty();
      add(mask ? LintRule::mask : LintRule::range, mask ? values.low : values.amax(), *type,
          fmt::format("{} reaches {:g}, infinite in {}", name, mask ? values.low : values.amax(),
                      name_of(*type)),
          mask ? "mask with masked_softmax, or use -65504" : "scale it down, or keep it in FP32");
      tell(tensor);
    } else if (path.empty() && values.integral && values.amax() > limits.integers) {
      add(LintRule::position, values.amax(), *type,
          fmt::format("its input holds integers up to {:g}, but {} is exact only up to {:g}", values.amax(),
                      name_of(*type), limits.integers),
          "divide positions by their maximum, or keep them in FP32");
      tell(tensor);
    }
  }

  bool exceeds(const Tensor& tensor, double limit) const {
    return readable(tensor) && forward_.range(tensor).amax() >= limit;
  }

  void range(const Tensor& tensor) {
    const auto type = forward_.stored(tensor);
    if (!type || told(tensor)) return;
    const double infinite = limits_of(*type).infinite;
    // Consequence of an earlier op's result. A view of the data shares its memory and counts as its maker.
    const auto follows = [&](double limit) {
      return std::ranges::any_of(op_->inputs, [&](const Tensor& input) {
        if (!readable(input)) return false;
        const WatchedOp* const maker = forward_.maker_of(input);
        return told(input) || (maker && maker != op_ && forward_.stored(input) && exceeds(input, limit));
      });
    };
    const double amax = forward_.range(tensor).amax();
    if (amax >= infinite && !follows(infinite)) {
      add(LintRule::range, amax, *type,
          fmt::format("its result reaches {:.4g}, infinite in {}", amax, name_of(*type)),
          "scale its input down, or keep it in FP32 (precision.layers, lists.deny)");
      tell(tensor);
    } else if (*type == DType::f16 && amax < infinite && amax > kGreatestCalm && !follows(kGreatestCalm)) {
      add(LintRule::amax, amax, *type,
          fmt::format("its result reaches {:.4g}, {:.1f} bits below overflow in f16", amax,
                      std::log2(infinite / amax)),
          "normalise before it, or keep it in FP32 (precision.layers, lists.deny)");
      tell(tensor);
    }
  }

  void weights() {
    std::set<std::string> seen;
    for (const WatchedOp& op : forward_.ops()) {
      op_ = &op;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.input_types[i] != DType::f16 || !readable(op.inputs[i])) continue;
        const std::string path = forward_.parameter(op.inputs[i]);
        if (path.empty() || !seen.insert(path).second) continue;
        ExponentHistogram values;
        values.add(op.inputs[i]);
        const auto nonzero = static_cast<double>(values.total() - values.zeros());
        const double share = static_cast<double>(values.flushed(0)) / std::max(nonzero, 1.0);
        if (share <= kGreatestFlushed) continue;
        add(LintRule::weights, share, DType::f16,
            fmt::format("{:.3g} % of {} is zero in f16", 100.0 * share, path),
            "initialise it larger and scale its product down, or use BF16");
      }
    }
  }

  const WatchedForward& forward_;
  const WatchedOp* op_ = nullptr;
  std::set<Name> told_;
  std::vector<LintLine> lines_;
};

}  // namespace

const char* name_of(LintRule rule) {
  constexpr const char* names[] = {"constant", "mask",       "epsilon",    "subnormal",    "exponential",
                                   "square",   "reciprocal", "saturation", "log of a sum", "sum",
                                   "variance", "deviation",  "position",   "loss",         "range",
                                   "amax",     "weights"};
  return names[static_cast<int>(rule)];
}

std::string to_string(const LintLine& line) {
  return fmt::format("{}: {}; {}", plan::to_string(line.key), line.what, line.way_out);
}

std::vector<LintLine> lint(nn::Module& model, const ResolvedPrecision& resolved,
                           const std::vector<std::function<Tensor()>>& phases) {
  const WatchedForward watched(model, resolved, phases);
  return Linter(watched).run();
}

}  // namespace tandem::amp
