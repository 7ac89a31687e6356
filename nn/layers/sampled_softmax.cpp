#include "nn/layers/sampled_softmax.h"

#include <limits>

#include "autograd/observers.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/index.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::nn {

namespace {

constexpr const char* kSampledSoftmax = "sampled_softmax";
constexpr Index kIgnored = -1;

void check(const Tensor& x, const Tensor& target, const CandidateClasses& candidates) {
  require(x.defined() && x.rank() > 0 && target.defined() && target.dtype() == DType::i64 &&
              target.shape() == x.shape().without(x.rank() - 1),
          kSampledSoftmax, "{} needs one class per row (i64), got the target {}", to_string(x),
          to_string(target));
  const Tensor &ids = candidates.ids, &counts = candidates.log_count;
  require(ids.defined() && ids.rank() == 1 && ids.numel() > 0 && counts.defined() &&
              counts.shape() == ids.shape() && candidates.target_log_count.defined() &&
              candidates.target_log_count.shape() == target.shape(),
          kSampledSoftmax, "candidates {}, log counts {} and log counts {} of the target {} do not fit",
          to_string(ids), to_string(counts), to_string(target), to_string(candidates.target_log_count));
}

}  // namespace

SampledSoftmax::SampledSoftmax(const Linear& layer)
    : weight_(add_parameter("weight", layer.weight())),
      bias_(layer.bias().defined() ? add_parameter("bias", layer.bias()) : Parameter()) {}

Tensor SampledSoftmax::forward(const Tensor& x) {
  return linear(x, weight_.tensor(), tensor_if_defined(bias_));
}

Tensor SampledSoftmax::loss(const Tensor& x, const Tensor& target, const CandidateClasses& candidates,
                            std::optional<Index> ignore_index) {
  check(x, target, candidates);
  return observed([&] { return sampled_loss(x, target, candidates, ignore_index); });
}

Tensor SampledSoftmax::sampled_loss(const Tensor& x, const Tensor& target, const CandidateClasses& candidates,
                                    std::optional<Index> ignore_index) {
  const Index rows = target.numel(), inputs = x.size(-1), count = candidates.ids.numel();
  const Tensor x2 = reshape(x, {rows, inputs}), weight = weight_.tensor();
  Tensor own = reshape(target, {rows}), verdict = Tensor::zeros({rows}, own.options());
  if (ignore_index) {
    const auto constant = [&](Index value) {
      return Tensor::scalar(static_cast<double>(value), own.options());
    };
    const Tensor ignored = equal(own, constant(*ignore_index));
    own = where(ignored, constant(0), own);
    verdict = where(ignored, constant(kIgnored), verdict);
  }
  Tensor on_target = reshape(
      bmm(reshape(x2, {rows, 1, inputs}), reshape(embedding(weight, own), {rows, inputs, 1})), {rows, 1});
  Tensor sampled = linear(x2, embedding(weight, candidates.ids));

  // The products' results are widened; no policy may round the terms added to them.
  const PrecisionScope as_it_is(nullptr);
  const auto column = [&](const Tensor& t) { return reshape(t, {rows, 1}); };
  Tensor shift = neg(candidates.log_count), target_shift = neg(reshape(candidates.target_log_count, {rows}));
  if (bias_.defined()) {
    const Tensor bias = bias_.tensor();
    shift = index_select(bias, candidates.ids, 0) + shift;
    target_shift = index_select(bias, own, 0) + target_shift;
  }
  on_target = on_target + column(target_shift);
  sampled = sampled + shift;
  const Tensor hit = equal(column(own), reshape(candidates.ids, {1, count}));
  const Tensor nothing = Tensor::scalar(-std::numeric_limits<double>::infinity(), sampled.options());
  return cross_entropy(concat({on_target, where(hit, nothing, sampled)}, 1), verdict,
                       {.ignore_index = kIgnored});
}

std::string SampledSoftmax::describe() const {
  return fmt::format("SampledSoftmax({} → {}{})", weight_.value().size(1), weight_.value().size(0),
                     bias_.defined() ? "" : ", no bias");
}

}  // namespace tandem::nn
