// Rotary position embedding (Su et al. 2021).
#pragma once

#include "core/tensor.h"

namespace tandem::nn {

// Cosines and sines f32 [T,D/2], or [N,T,D/2] if the rows of a batch stand at different positions: of
// position p and pair i, the angle p·theta^(−2i/D).
struct RotaryAngles {
  Tensor cosines, sines;
  bool interleaved = false;  // pairs are neighbours (0,1), (2,3), … as in GPT-J; else (0,D/2), (1,D/2+1), …

  bool defined() const { return cosines.defined(); }
};

// Of positions 0 to count − 1, for heads of `width` columns. Angles are computed in f64. Throws UserError for
// an odd width.
RotaryAngles rotary_angles(Index count, Index width, double theta, bool interleaved = false);

// Rotates each pair of columns of each head of x [N,T,heads·D] by the angle of its position.
Tensor rotated(const Tensor& x, Index heads, const RotaryAngles& angles);

}  // namespace tandem::nn
