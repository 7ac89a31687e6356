#include "nn/layers/adaptive_softmax.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"

namespace tandem::nn {

namespace {

constexpr const char* kAdaptiveSoftmax = "adaptive_softmax";

// Inputs of cluster i, from 0.
Index inputs_of(Index in_features, double div_value, std::size_t i) {
  return static_cast<Index>(
      std::floor(static_cast<double>(in_features) / std::pow(div_value, static_cast<double>(i + 1))));
}

}  // namespace

std::string complaint_of(const AdaptiveSoftmaxOptions& options, Index in_features, Index classes) {
  const std::vector<Index>& cutoffs = options.cutoffs;
  if (cutoffs.empty()) return "there are no cutoffs; give at least one, or use the full softmax";
  for (std::size_t i = 0; i < cutoffs.size(); ++i) {
    if (cutoffs[i] < 1 || cutoffs[i] >= classes)
      return fmt::format("cutoff {} lies outside of [1, {}] for {} classes", cutoffs[i], classes - 1,
                         classes);
    if (i > 0 && cutoffs[i] <= cutoffs[i - 1])
      return fmt::format("cutoffs must increase, {} comes after {}", cutoffs[i], cutoffs[i - 1]);
  }
  if (!(options.div_value >= 1.0) || !std::isfinite(options.div_value))
    return fmt::format("div_value must be a number of at least 1, is {}", options.div_value);
  if (inputs_of(in_features, options.div_value, cutoffs.size() - 1) < 1)
    return fmt::format(
        "cluster {} would have {} / {}^{} = 0 inputs; use fewer cutoffs or a smaller div_value",
        cutoffs.size(), in_features, options.div_value, cutoffs.size());
  return "";
}

AdaptiveSoftmax::AdaptiveSoftmax(Index in_features, Index classes, const AdaptiveSoftmaxOptions& options)
    : options_(options), bounds_(options.cutoffs) {
  require(in_features > 0 && classes > 0, kAdaptiveSoftmax, "sizes must be positive, got {} → {}",
          in_features, classes);
  const std::string complaint = complaint_of(options, in_features, classes);
  require(complaint.empty(), kAdaptiveSoftmax, "{}", complaint);
  bounds_.push_back(classes);
  const auto count = static_cast<Index>(options.cutoffs.size());
  head_ = add_child(
      "head", std::make_shared<Linear>(in_features, shortlist() + count, LinearOptions{options.head_bias}));
  const auto tail = add_child("tail", std::make_shared<Sequential>());
  for (std::size_t i = 0; i < options.cutoffs.size(); ++i) {
    const Index inputs = inputs_of(in_features, options.div_value, i), words = bounds_[i + 1] - bounds_[i];
    tail_.push_back(std::make_shared<Sequential>(
        std::initializer_list<ModulePtr>{std::make_shared<Linear>(in_features, inputs, LinearOptions{false}),
                                         std::make_shared<Linear>(inputs, words, LinearOptions{false})}));
    tail->add(tail_.back());
  }
}

Tensor AdaptiveSoftmax::forward(const Tensor& x) {
  const Tensor head = log_softmax((*head_)(x));
  TensorList parts{slice(head, -1, 0, shortlist())};
  for (Index i = 0; i < clusters(); ++i) {
    const Tensor inside = log_softmax((*tail_[static_cast<std::size_t>(i)])(x));
    const PrecisionScope as_it_is(nullptr);  // no policy may round log-probabilities
    parts.push_back(slice(head, -1, shortlist() + i, shortlist() + i + 1) + inside);
  }
  const PrecisionScope as_it_is(nullptr);
  return concat(parts, -1);
}

Tensor AdaptiveSoftmax::negative_log_likelihood(const Tensor& x, const Tensor& target,
                                                std::optional<Index> ignore_index) {
  require(x.defined() && x.rank() > 0 && target.defined() && target.dtype() == DType::i64 &&
              target.shape() == x.shape().without(x.rank() - 1),
          kAdaptiveSoftmax, "{} needs one class per row (i64), got the target {}", to_string(x),
          to_string(target));
  const Index rows = target.numel();
  const AdaptiveRows split = adaptive_rows(reshape(target, {rows}), bounds_, ignore_index);
  return reshape(negative_log_likelihood(reshape(x, {rows, x.size(-1)}), split), target.shape());
}

Tensor AdaptiveSoftmax::negative_log_likelihood(const Tensor& x, const AdaptiveRows& split) {
  const auto nll_of = [](const Tensor& logits, const Tensor& classes) {
    return cross_entropy(logits, classes, {.ignore_index = AdaptiveRows::kNoClass, .reduce = Reduce::none});
  };
  return observed([&] {
    Tensor nll = nll_of((*head_)(x), split.head);
    for (const AdaptiveRows::Cluster& part : split.clusters) {
      Module& cluster = *tail_[part.number];
      const Tensor inside =
          nll_of(cluster(part.rows.defined() ? index_select(x, part.rows, 0) : x), part.target);
      const PrecisionScope as_it_is(nullptr);
      nll = part.rows.defined() ? scatter_add(nll, part.rows, inside, 0) : nll + inside;
    }
    return nll;
  });
}

Tensor AdaptiveSoftmax::loss(const Tensor& x, const Tensor& target, std::optional<Index> ignore_index) {
  const Tensor nll = negative_log_likelihood(x, target, ignore_index);
  if (!ignore_index) return mean(nll);
  const PrecisionScope as_it_is(nullptr);
  const Tensor ignored = Tensor::scalar(static_cast<double>(*ignore_index), target.options());
  const Tensor count = sum(cast(not_equal(target, ignored), nll.dtype()));
  return sum(nll) / clamp(count, 1.0, static_cast<double>(std::max<Index>(target.numel(), 1)));
}

Tensor AdaptiveSoftmax::predict(const Tensor& x) {
  const NoGrad no_grad;
  const Index count = x.numel() / x.size(-1);
  const Tensor rows = reshape(x, {count, x.size(-1)});
  const Shape shape = x.shape().without(x.rank() - 1);
  if (rows.device() != Device{}) return reshape(argmax((*this)(rows)), shape);
  const Tensor best = argmax((*head_)(rows));
  std::int64_t* const found = best.data<std::int64_t>();
  std::vector<std::int64_t> beyond;
  for (Index row = 0; row < count; ++row)
    if (found[row] >= shortlist()) beyond.push_back(row);
  if (!beyond.empty()) {
    const Tensor index = Tensor::from(beyond, {static_cast<Index>(beyond.size())});
    const auto chosen = argmax((*this)(index_select(rows, index, 0))).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < beyond.size(); ++i) found[beyond[i]] = chosen[i];
  }
  return reshape(best, shape);
}

std::string AdaptiveSoftmax::describe() const {
  return fmt::format("AdaptiveSoftmax({} → {}, cutoffs {})", head_->weight().value().size(1), classes(),
                     fmt::join(options_.cutoffs, " "));
}

}  // namespace tandem::nn
