// The op structs behind rnn.h: a layer in one direction. All are fused; inside a HigherOrder scope the
// stepwise `composed` runs instead.
#pragma once

#include "autograd/ops/rnn.h"

namespace tandem {

namespace ops {

struct RnnTensors {
  using In = RnnInputs;
  struct Saved {
    RnnInputs in;
    Tensor y, gates, states;
  };
  struct Out {
    Tensor y, h_n, c_n;
  };
  RnnOptions options;
  // Products of the inputs, of the hidden state, and of the projection if there is one.
  static ProductSizes products(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static constexpr OpTraits kTraits{
      .kind = OpKind::recurrent, .products = products, .weight = 3, .one_type = true, .wide_results = 0b100};
};

inline constexpr std::array<Role, 8> kRnnRoles{data, data, keep, data, data, keep, keep, data};

struct Lstm : RnnTensors {
  static constexpr OpInfo info{"lstm", CastRule::lower, kTraits, kRnnRoles};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const Lstm& op, const In& in);
};

struct Gru : RnnTensors {
  static constexpr OpInfo info{"gru", CastRule::lower, kTraits, kRnnRoles};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const Gru& op, const In& in);
};

// Activation tanh or relu.
struct Rnn : RnnTensors {
  static constexpr OpInfo info{"rnn", CastRule::lower, kTraits, kRnnRoles};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const Rnn& op, const In& in);
};

}  // namespace ops

using RnnOps = TypeList<ops::Lstm, ops::Gru, ops::Rnn>;

}  // namespace tandem
