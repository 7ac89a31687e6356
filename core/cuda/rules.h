// Numerical and tuning rules of a CUDA backend.
#pragma once

namespace tandem::cuda {

struct Rules {
  // Convolutions use only deterministic plans, not chosen by timing. Other kernels are always deterministic.
  bool deterministic = false;
  // Products and convolutions may round f32 operands to TF32 (11 significant bits) for tensor cores.
  bool allow_tf32 = true;
  bool tune = true;  // choose plans of convolutions by timing
  // Maximum time of a convolution that writes f32 from 16-bit operands, relative to one that rounds to 16
  // bits; 0: never write f32. Without timing, an existing f32 plan is used. The alternative widens the
  // operands, which takes about twice as long, and one pass over each.
  float wide_cost = 2.5f;
  friend bool operator==(const Rules&, const Rules&) = default;
};

}  // namespace tandem::cuda
