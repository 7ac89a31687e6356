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
  using In = Operand;
  using Saved = Result;
  using Out = Result;
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
};

// Fused; inside a HigherOrder scope `composed` runs, which stores the arguments of tanh.
struct AdditiveAttention {
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{"additive_attention",
                               CastRule::lower,
                               {.kind = OpKind::attention, .products = products},
                               {data, data, data, keep, keep, keep}};
  AttentionMask mask;
  using In = AdditiveInputs;
  struct Saved {
    AdditiveInputs in;
    Tensor weights;
  };
  struct Out {
    Tensor context, weights;
  };
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const AdditiveAttention& op, const In& in);
};

}  // namespace ops

using AttentionOps = TypeList<ops::MaskedSoftmax, ops::AdditiveAttention>;

}  // namespace tandem
