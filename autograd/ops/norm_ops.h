// The op structs behind norm.h. All are fused; inside a HigherOrder scope `composed` runs instead.
#pragma once

#include "autograd/ops/norm.h"
#include "autograd/ops/parts.h"
#include "core/random.h"

namespace tandem {

class BatchNormPeers;

namespace ops {

struct BatchNormTensors {
  struct In {
    Tensor x, residual, gamma, beta;
  };
  struct Saved {
    Tensor x, gamma, mean, rstd, mask;
  };
  using Out = Result;
  BatchNormStatistics statistics;
  BatchNormOptions options;
};

// Uses the statistics of the batch; writes the next running statistics.
struct BatchNormTrain : BatchNormTensors {
  BatchNormPeers* peers = nullptr;  // processes with the other shards of the batch, see norm_peers.h
  static constexpr OpInfo info{
      "batch_norm_train", CastRule::neutral, {.kind = OpKind::batch_norm}, {data, data, keep, keep}};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const BatchNormTrain& op, const In& in);
};

// Uses the running statistics, constants in backward.
struct BatchNormInfer : BatchNormTensors {
  static constexpr OpInfo info{"batch_norm_infer",
                               CastRule::neutral,
                               {.kind = OpKind::batch_norm, .trained_as = &BatchNormTrain::info},
                               {data, data, keep, keep}};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const BatchNormInfer& op, const In& in);
};

struct RowNormTensors {
  struct In {
    Tensor x, gamma, beta;
  };
  struct Saved {
    Tensor x, gamma, mean, rstd;
  };
  using Out = Result;
  double eps = 1e-5;
  Shape parameter_shape;
  NormResult result = NormResult::wide;
};

struct LayerNorm : RowNormTensors {
  static constexpr OpInfo info{
      "layer_norm", CastRule::fp32, {.kind = OpKind::normalises}, {data, keep, keep}};
  int axes = 1;
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const LayerNorm& op, const In& in);
};

// Without beta.
struct RmsNorm : RowNormTensors {
  static constexpr OpInfo info{"rms_norm", CastRule::fp32, {.kind = OpKind::normalises}, {data, keep, keep}};
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const RmsNorm& op, const In& in);
};

// Follows the branch; the residual keeps its type, f32 by default.
struct ResidualNorm {
  static constexpr OpInfo info{"residual_norm",
                               CastRule::neutral,
                               {.kind = OpKind::normalises, .wide_results = 1},
                               {keep, data, keep, keep}};
  struct In {
    Tensor x, branch, gamma, beta;
  };
  struct Saved {
    Tensor sum, gamma, mean, rstd;
    Tensor branch_type;  // no elements, of the dtype of the branch
  };
  using Out = ResidualNormResult;
  RandomKey key;
  double p = 0.0;
  double eps = 1e-5;
  bool rms = false, wide = false;
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const ResidualNorm& op, const In& in);
};

struct GroupNorm : RowNormTensors {
  static constexpr OpInfo info{
      "group_norm", CastRule::fp32, {.kind = OpKind::normalises}, {data, keep, keep}};
  Index groups = 1;
  Out forward(Context& context, Saved& saved, const In& in) const;
  In backward(const Saved& saved, const Out& dy, const Needs& needs) const;
  static Out composed(const GroupNorm& op, const In& in);
};

}  // namespace ops

}  // namespace tandem
