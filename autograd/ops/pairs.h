// Elementwise ops on pairs of columns: rotary positions, and SwiGLU.
#pragma once

#include "autograd/op.h"

namespace tandem {

// Cosines and sines of the angles p·theta^(-2i/width) of positions p < `positions` and pairs i < width/2: a
// constant [positions, width], cosines first, computed in double precision. UserError unless width is even
// and positive, positions is not negative and theta > 0.
Tensor rotary_table(Index positions, Index width, double theta = 1e4, const TensorOptions& options = {});

struct RotaryOptions {
  Index heads = 1;
  Index first = 0;     // position of the first row of each text
  Tensor positions{};  // i64 [N,T], positions of the rows instead; or absent
  bool interleaved =
      false;  // pairs (2i, 2i+1) of a head (GPT-J, Meta's Llama); otherwise (i, i + D/2) (NeoX)
};

// Rotary position embedding (Su et al., "RoFormer", 2021) of x [N,T,heads·D] by a table [P,D] of
// rotary_table(): each pair of columns of a head is turned by the angle of its position, in f32 (f64 for f64)
// and rounded once. UserError for a position outside the table; on an asynchronous device the next
// synchronisation throws.
Tensor rotary(const Tensor& x, const Tensor& table, const RotaryOptions& options = {});

// x [...,2F] holds gates and values, the result of one product: silu(gate)·value [...,F] (Shazeer, "GLU
// variants improve transformer", 2020). Backward computes the gate again.
Tensor swiglu(const Tensor& x);

}  // namespace tandem
