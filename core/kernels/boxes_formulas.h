// Formulas of boxes (core/kernels/boxes.h) for host and device, with the same bits on all of them. Products
// must not be fused with sums: `product` prevents it on a GPU, -ffp-contract=off (CMakeLists.txt) on hosts.
#pragma once

#include <bit>
#include <cstdint>

#include "core/kernels/math.h"
#include "core/op_options.h"

namespace tandem::boxes {

#if defined(__CUDA_ARCH__)
TANDEM_HD float product(float a, float b) { return __fmul_rn(a, b); }
#else
TANDEM_HD float product(float a, float b) { return a * b; }
#endif
TANDEM_HD float least(float a, float b) { return a < b ? a : b; }
TANDEM_HD float most(float a, float b) { return a > b ? a : b; }

struct Corners {
  float x1, y1, x2, y2;
};

// Converts (cx, cy, w, h); halving is exact.
TANDEM_HD Corners corners_of(const float* anchor) {
  const float w = 0.5f * anchor[2], h = 0.5f * anchor[3];
  return {anchor[0] - w, anchor[1] - h, anchor[0] + w, anchor[1] + h};
}

TANDEM_HD float area_of(const Corners& box) { return product(box.x2 - box.x1, box.y2 - box.y1); }

// Intersection over union; 0 for two boxes without area.
TANDEM_HD float overlap(const Corners& a, float area_a, const Corners& b, float area_b) {
  const float w = least(a.x2, b.x2) - most(a.x1, b.x1), h = least(a.y2, b.y2) - most(a.y1, b.y1);
  const float shared = product(most(w, 0.0f), most(h, 0.0f));
  const float all = (area_a + area_b) - shared;
  return all > 0.0f ? shared / all : 0.0f;
}

// ln(a/b), computed in double, whose rounding errors do not show in a float.
TANDEM_HD float log_ratio(float a, float b) {
  return static_cast<float>(math::log(static_cast<double>(a / b)));
}

// `object` is (x1, y1, x2, y2); `variances` as in BoxMatchOptions.
TANDEM_HD void encode(const float* object, const float* anchor, const float* variances, float* code) {
  const float cx = 0.5f * (object[0] + object[2]), cy = 0.5f * (object[1] + object[3]);
  code[0] = (cx - anchor[0]) / anchor[2] / variances[0];
  code[1] = (cy - anchor[1]) / anchor[3] / variances[0];
  code[2] = log_ratio(object[2] - object[0], anchor[2]) / variances[1];
  code[3] = log_ratio(object[3] - object[1], anchor[3]) / variances[1];
}

// Sort key for hard negative mining: a larger loss, then a lower anchor, gives a larger, unique key; NaN is
// the largest.
TANDEM_HD std::uint64_t rank_of(float loss, std::int32_t anchor) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(loss);
  if (loss != loss) {
    bits = 0xffffffffu;
  } else {
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  return std::uint64_t{bits} << 32 | ~static_cast<std::uint32_t>(anchor);
}

// The same for overlaps, which are non-negative.
TANDEM_HD std::uint64_t rank_of_overlap(float value, std::int32_t anchor) {
  return std::uint64_t{std::bit_cast<std::uint32_t>(value)} << 32 | ~static_cast<std::uint32_t>(anchor);
}
TANDEM_HD std::int32_t anchor_of(std::uint64_t rank) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(rank));
}
TANDEM_HD float overlap_of(std::uint64_t rank) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(rank >> 32));
}

// Number of negatives in the loss of an image with `positives` positives.
TANDEM_HD Index negatives_of(const MiningOptions& options, Index positives) {
  const auto wanted = static_cast<Index>(options.negatives_per_positive * static_cast<double>(positives));
  return wanted > options.min_negatives ? wanted : options.min_negatives;
}
TANDEM_HD float share_of(const MiningOptions& options, Index images, Index positives, Index of_batch) {
  const bool by_image = options.share == LossShare::image;
  const Index counted = by_image ? positives : of_batch;
  return 1.0f / static_cast<float>((by_image ? images : 1) * (counted > 1 ? counted : 1));
}

}  // namespace tandem::boxes
