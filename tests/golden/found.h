// Detections in an image against torchvision's: found/boxes, found/scores and found/labels, as
// tests/golden/ssd.py stores them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "files/safetensors.h"
#include "models/box_suppression.h"

namespace tandem {

// Where scores are nearly equal, rounding decides who comes first, and which of two that overlap goes.
inline void check_found(const std::vector<models::FoundBox>& found, const safetensors::File& golden) {
  constexpr double kNear = 1e-4;
  const auto boxes = golden.read("found/boxes").to_vector<double>(),
             scores = golden.read("found/scores").to_vector<double>();
  const auto labels = golden.read("found/labels").to_vector<std::int64_t>();
  REQUIRE(found.size() == scores.size());
  std::size_t same = 0;
  for (const models::FoundBox& each : found) {
    const double corners[] = {each.box.x1, each.box.y1, each.box.x2, each.box.y2};
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const bool near = std::equal(corners, corners + 4, boxes.begin() + static_cast<std::ptrdiff_t>(4 * i),
                                   [](double a, double b) { return std::abs(a - b) < kNear; });
      if (near && each.label == labels[i] && std::abs(static_cast<double>(each.score) - scores[i]) < kNear) {
        ++same;
        break;
      }
    }
  }
  CHECK(same + 2 >= scores.size());
}

}  // namespace tandem
