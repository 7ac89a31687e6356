#include "nn/layers/rotary.h"

#include <cmath>
#include <vector>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/shape.h"
#include "core/error.h"

namespace tandem::nn {

RotaryAngles rotary_angles(Index count, Index width, double theta, bool interleaved) {
  require(width > 0 && width % 2 == 0, "rotary", "rotates pairs of columns, but a head has {} columns",
          width);
  require(theta > 0.0 && std::isfinite(theta), "rotary", "theta must be positive, got {}", theta);
  const Index pairs = width / 2;
  std::vector<float> cosines, sines;
  cosines.reserve(static_cast<std::size_t>(count * pairs));
  sines.reserve(static_cast<std::size_t>(count * pairs));
  for (Index position = 0; position < count; ++position) {
    for (Index i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return {Tensor::from(cosines, {count, pairs}), Tensor::from(sines, {count, pairs}), interleaved};
}

Tensor rotated(const Tensor& x, Index heads, const RotaryAngles& angles) {
  const Index rows = x.size(0), steps = x.size(1), width = x.size(2) / heads, pairs = width / 2;
  require(angles.cosines.size(-1) == pairs && angles.cosines.size(-2) == steps, "rotary",
          "x {} of {} heads expects angles [{},{}], got {}", to_string(x), heads, steps, pairs,
          to_string(angles.cosines));
  // Pairs lie along one axis of size 2: the last for interleaved pairs, else the one before.
  const int axis = angles.interleaved ? 4 : 3;
  const Tensor pairs_of_heads = angles.interleaved ? reshape(x, {rows, steps, heads, pairs, 2})
                                                   : reshape(x, {rows, steps, heads, 2, pairs});
  const auto of_positions = [&](const Tensor& table) {
    const Index rows_of_table = table.rank() == 3 ? rows : 1;
    return angles.interleaved ? reshape(table, {rows_of_table, steps, 1, pairs, 1})
                              : reshape(table, {rows_of_table, steps, 1, 1, pairs});
  };
  const Tensor cosine = of_positions(angles.cosines), sine = of_positions(angles.sines);
  const Tensor first = slice(pairs_of_heads, axis, 0, 1), second = slice(pairs_of_heads, axis, 1, 2);
  const Tensor turned = concat({first * cosine - second * sine, second * cosine + first * sine}, axis);
  return cast(reshape(turned, x.shape()), x.dtype());
}

}  // namespace tandem::nn
