// The op structs behind rnn.h: a layer in one direction. All are fused; inside a HigherOrder scope the
// stepwise `composed` runs instead.
#pragma once

#include "autograd/ops/rnn.h"

namespace tandem {

namespace ops {

struct RnnTensors {
  struct Saved {
    RnnInputs in;
    Tensor y, gates, states;
  };
  RnnOptions options;
  // Products of the inputs, of the hidden state, and of the projection if there is one.
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpTraits kTraits{
      .kind = OpKind::recurrent, .products = products, .weight = 3, .one_type = true, .wide_results = 0b100};
};

inline constexpr std::array<Role, 8> kRnnRoles{data, data, keep, data, data, keep, keep, data};

template <RnnCell kCell>
struct RnnOp : RnnTensors {
  static constexpr OpInfo info{kCell == RnnCell::lstm  ? "lstm"
                               : kCell == RnnCell::gru ? "gru"
                                                       : "rnn",
                               CastRule::lower, kTraits, kRnnRoles};
  RnnResult forward(Context& context, Saved& saved, const RnnInputs& in) const;
  RnnInputs backward(const Saved& saved, const RnnResult& dy, const Needs& needs) const;
  static RnnResult composed(const RnnOp& op, const RnnInputs& in);
};
using Lstm = RnnOp<RnnCell::lstm>;
using Gru = RnnOp<RnnCell::gru>;
using Rnn = RnnOp<RnnCell::rnn_tanh>;  // or relu

}  // namespace ops

}  // namespace tandem
