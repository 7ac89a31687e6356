// The op structs behind attention.h.
#pragma once

#include "autograd/ops/attention.h"
#include "autograd/ops/parts.h"
#include "core/op_options.h"
#include "core/random.h"

namespace tandem {

namespace ops {

// Throws UserError for a mask that does not fit `rows` rows of `keys` keys.
void check_mask(const char* op, const AttentionMask& mask, Index rows, Index keys);

struct AttentionInputs {
  Tensor query, key, value;  // key and value absent: query is a projection of all three
};

// Fused; `composed` stores scores and weights.
struct Attention {
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpInfo info{
      "attention", CastRule::lower, {.kind = OpKind::attention, .products = products}};
  // Place of the heads: an axis before the tokens, [N,…,T,D], or columns, [N,T,H·D].
  enum class Layout : std::uint8_t { axis, columns };

  Layout layout = Layout::columns;
  AttentionSizes size;
  AttentionMask mask;
  double scale = 1.0;
  bool alibi = false;
  double dropout = 0.0;
  RandomKey random;
  struct Saved {
    Tensor query, key, value, result, lse;
  };
  Result forward(Context& context, Saved& saved, const AttentionInputs& in) const;
  AttentionInputs backward(const Saved& saved, const Result& dy, const Needs& needs) const;
  static Result composed(const Attention& op, const AttentionInputs& in);
};

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
