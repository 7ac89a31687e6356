// The op structs behind attention.h.
#pragma once

#include "autograd/ops/attention.h"
#include "autograd/ops/parts.h"

namespace tandem {

namespace ops {

struct MaskedSoftmax {
  static constexpr OpInfo info{
      "masked_softmax", CastRule::lower, {.kind = OpKind::normalises, .family = "attention"}};
  AttentionMask mask;
  Result forward(Context& context, Result& saved, const Operand& in) const;
  Operand backward(const Result& saved, const Result& dy, const Needs& needs) const;
};

// Fused; inside a HigherOrder scope `composed` runs, which stores the arguments of tanh.
struct AdditiveAttention {
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{"additive_attention",
                               CastRule::lower,
                               {.kind = OpKind::attention, .products = products},
                               {data, data, data, keep, keep, keep}};
  AttentionMask mask;
  struct Saved {
    AdditiveInputs in;
    Tensor weights;
  };
  AttentionResult forward(Context& context, Saved& saved, const AdditiveInputs& in) const;
  AdditiveInputs backward(const Saved& saved, const AttentionResult& dy, const Needs& needs) const;
  static AttentionResult composed(const AdditiveAttention& op, const AdditiveInputs& in);
};

}  // namespace ops

}  // namespace tandem
