// Synthetic inputs of both sides of a comparison (bench/synthetic.py): points of Roberts' low-discrepancy
// sequence ("The unreasonable effectiveness of quasirandom sequences", 2018), and objects at such points.
#pragma once

#include <array>
#include <cmath>

#include "core/tensor.h"

namespace tandem::bench {

// Point `i` of the four-dimensional unit cube: i + 1 times the powers of 1/φ with φ⁵ = φ + 1, modulo 1. In
// FP64.
inline std::array<double, 4> synthetic_point(Index i) {
  static constexpr std::array kSteps{0.8566748838545029, 0.733891856627126, 0.6287067210378087,
                                     0.5385972572236101};
  std::array<double, 4> point{};
  for (std::size_t axis = 0; axis < point.size(); ++axis) {
    const double value = static_cast<double>(i + 1) * kSteps[axis];
    point[axis] = value - std::floor(value);
  }
  return point;
}

// f32 [images,objects,5], the format of match_boxes: sides of 0.1 to 0.4 of the image, classes in turn.
inline Tensor synthetic_objects(Index images, Index objects, Index classes) {
  Tensor boxes = Tensor::empty({images, objects, 5});
  float* row = boxes.data<float>();
  for (Index i = 0; i < images * objects; ++i, row += 5) {
    const auto [x, y, w, h] = synthetic_point(i);
    row[0] = static_cast<float>(0.6 * x);
    row[1] = static_cast<float>(0.6 * y);
    row[2] = static_cast<float>(0.6 * x + 0.1 + 0.3 * w);
    row[3] = static_cast<float>(0.6 * y + 0.1 + 0.3 * h);
    row[4] = static_cast<float>(1 + i % (classes - 1));
  }
  return boxes;
}

}  // namespace tandem::bench
