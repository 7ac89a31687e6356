// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024), as PyTorch defines
// it. A weight of two axes or more is a matrix [R,C] (its first axis beside the others), updated by
//   m ← momentum·m + (1-momentum)·g
//   d = (1-momentum)·g + momentum·m with nesterov, else m
//   w ← w·(1 - lr·weight_decay) - lr·ratio·NS(d)
// NS is a Newton–Schulz iteration (three matrix products a step) that brings the singular values of d/‖d‖
// close to one. Its products have the dtype of the weights' working copies, unlike PyTorch's, whose dtype is
// fixed. AdamW (optim/adamw.h) updates vectors, embedding tables, and weights of a group with "adapt": false
// (usually the last layer), as in Jordan's `MuonWithAuxAdam`.
#pragma once

#include "optim/optimizer.h"

namespace tandem::optim {

// Factor on the learning rate of a matrix [R,C].
enum class MuonRate : std::uint8_t {
  original,            // √max(1, R/C)
  match_rms_adamw,     // 0.2·√max(R,C): updates as large as AdamW's (Liu et al., "Muon is scalable for LLM
                       // training", 2025)
  spectral_unclamped,  // √(R/C) (Bernstein, "Deriving Muon", 2025)
};

struct MuonOptions {
  std::optional<double> lr{};  // 1e-3 when neither this nor a schedule is given
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  Index ns_steps = 5;
  double eps = 1e-7;  // lower bound on the norm that divides d
  MuonRate adjust_lr = MuonRate::original;
  bool adapt_tables = false;  // treat embedding tables as matrices
  // For AdamW.
  double adamw_lr_factor = 1.0;  // factor on the learning rate
  double beta1 = 0.9, beta2 = 0.999;
  double adamw_eps = 1e-8;
  std::vector<ParameterGroup> groups{};
};

class Muon : public Optimizer {
 public:
  static const OptimizerRegistry::Entry& entry();
  explicit Muon(std::vector<Parameter> parameters, const MuonOptions& options = {});

  std::vector<StateTensor> state_of(const Entry& entry) const override;
  void update(UpdateContext& context) const override;

 private:
  MuonOptions options_;
};

// Orthogonalises a matrix [R,C]: singular values close to one. In f32.
Tensor newton_schulz(const Tensor& matrix, Index steps, double eps, DType dtype);

}  // namespace tandem::optim

template <>
struct tandem::options::EnumNames<tandem::optim::MuonRate> {
  static constexpr std::array values{"original", "match_rms_adamw", "spectral_unclamped"};
};
