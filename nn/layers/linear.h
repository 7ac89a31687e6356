// Fully connected layer.
#pragma once

#include "nn/init.h"
#include "nn/module.h"

namespace tandem::nn {

struct LinearOptions {
  bool bias = true;
  WeightInit init = WeightInit::standard;
};

// [...,I] → [...,O]. Parameters: weight [O,I], bias [O].
class Linear final : public Module {
 public:
  Linear(Index in_features, Index out_features, const LinearOptions& options = {});
  // Shares the parameters of other layers (tied weights); `bias` may be absent.
  explicit Linear(Parameter weight, Parameter bias = {});

  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  Parameter weight_, bias_;
};

}  // namespace tandem::nn
