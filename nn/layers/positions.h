// Positions of tokens as sines and cosines.
#pragma once

#include "nn/module.h"

namespace tandem::nn {

// Column 2i of position p is sin(p·10000^(−2i/C)), column 2i + 1 the cosine of the same angle (Vaswani et al.
// 2017). No parameters.
class SinusoidalPositions final : public Module {
 public:
  // Throws UserError for less than one feature.
  explicit SinusoidalPositions(Index features);

  Tensor forward(const Tensor& x) override { return added(x, 0); }
  using Module::operator();
  // x [N,T,C] plus the positions first, …, first + T − 1, which have no limit.
  Tensor operator()(const Tensor& x, Index first) {
    return observed([&] { return added(x, first); });
  }
  // Constant of at least `count` positions, f32 [P,C], for graphs of exports.
  const Tensor& table(Index count);
  std::string describe() const override;

 private:
  Tensor added(const Tensor& x, Index first);

  Index features_;
  const Tensor* table_;  // constant: f32 [P,C]
  Tensor longer_;        // a table of more positions, once a text needs them
};

}  // namespace tandem::nn
