// Adafactor (Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018),
// as PyTorch defines it. A weight of two axes or more is a matrix [R,C] (its first axis beside the others);
// its squared gradients are kept as means of rows and of columns. t counts the updates of each parameter from
// 1:
//   β = 1 - t^-beta2_decay
//   r ← β·r + (1-β)·mean of g² over columns,  c ← β·c + (1-β)·mean of g² over rows,
//   v = r·c / max(mean(r), eps1);  of a vector: v ← β·v + (1-β)·g²
//   u = g / √max(v, eps1²),  u ← u / max(1, rms(u)/clip_threshold)
//   α = min(lr, 1/√t) with relative_step, else lr;  times max(eps2, rms(w)) with scale_parameter
//   w ← w·(1 - lr·weight_decay) - α·u
// With beta1 the last term is its running mean m ← beta1·m + (1-beta1)·α·u, as in Hugging Face's
// transformers.
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

struct AdafactorOptions {
  std::optional<double> lr{};  // 1e-2 when neither this nor a schedule is given
  double beta1 = 0.0;          // 0: no mean of updates
  double beta2_decay = 0.8;
  double eps1 = 1.1920928955078125e-07, eps2 = 1e-3;
  double clip_threshold = 1.0;  // 0: updates are not clipped
  bool relative_step = true;
  bool scale_parameter = true;
  double weight_decay = 0.0;
  std::vector<ParameterGroup> groups{};
};

class Adafactor : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Adafactor(std::vector<Parameter> parameters, const AdafactorOptions& options = {});

  std::vector<StateTensor> state_of(const Entry& entry) const override;
  void update(UpdateContext& context) const override;

 private:
  Tensor square_of(UpdatedParameter& p, const Tensor& gradient, const Tensor& fresh) const;

  AdafactorOptions options_;
};

}  // namespace tandem::optim
