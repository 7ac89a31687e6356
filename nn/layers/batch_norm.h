// Batch normalisation over all axes but the last: images [N,H,W,C], sequences [N,L,C] and features [N,C].
#pragma once

#include "autograd/ops/norm.h"
#include "nn/module.h"

namespace tandem::nn {

struct BatchNormLayerOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // weight of the new batch in the running statistics
  bool relu = false;      // y = max(0, …), fused
  bool affine = true;
  bool zero_gamma = false;  // gamma starts at 0: a residual block starts as the identity
};

// y = act((x - mean)/√(var + eps)·weight + bias [+ residual]). Parameters: weight, bias [C] (gamma and beta).
// Statistics: running_mean, running_var [C]. Training uses the batch's statistics and updates `next`, except
// in a KeepStatistics scope; evaluation uses the live ones. Throws UserError in training for a single value
// per channel.
class BatchNorm final : public Module {
 public:
  explicit BatchNorm(Index channels, const BatchNormLayerOptions& options = {});

  Tensor forward(const Tensor& x) override;
  // {x} or {x, residual}: adds the residual before the activation, in the same pass.
  Tensor forward_all(const TensorList& xs) override;
  // `sums`: those of x from a convolution, which save a pass over x in training; absent: none.
  Tensor operator()(const Tensor& x, const Tensor& residual, const Tensor& sums = {});
  using Module::operator();

  std::string describe() const override;

  const Parameter& weight() const { return gamma_; }
  const Parameter& bias() const { return beta_; }

 private:
  Tensor normalise(const Tensor& x, const Tensor& residual, const Tensor& sums = {});

  Index channels_;
  BatchNormOptions options_;
  Parameter gamma_, beta_;
  const Statistic& mean_;
  const Statistic& var_;
  std::int64_t& batches_tracked_;  // training forwards, saved in files
};

}  // namespace tandem::nn
