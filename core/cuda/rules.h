// Restrictions on how a CUDA backend computes.
#pragma once

namespace tandem::cuda {

struct Rules {
  // Convolutions run only plans with the same bits in every run, and none that was chosen by timing. The rest
  // has the same bits in every run anyway.
  bool deterministic = false;
  // f32 operands of products and convolutions may be rounded to TF32 (11 significant bits), which tensor
  // cores multiply.
  bool allow_tf32 = true;
  bool tune = true;  // choose plans of convolutions by timing
  // How many times as long as a convolution that rounds to 16 bits one may take that writes f32 from 16-bit
  // operands; 0: none is wanted. Where nothing is timed, a plan that writes f32 is taken if there is one. The
  // way around it widens the operands, and takes about twice as long and a pass over each.
  float wide_cost = 2.5f;
  friend bool operator==(const Rules&, const Rules&) = default;
};

}  // namespace tandem::cuda
