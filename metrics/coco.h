// Average precision and recall as COCO reports them (Lin et al., "Microsoft COCO: common objects in context",
// ECCV 2014): the figures of pycocotools 2.0.11 for boxes, equal to rounding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/detections.h"

namespace tandem::metrics {

// In the order of pycocotools. AP without more is the mean over IoU thresholds 0.5, 0.55 … 0.95; small is up
// to 32² pixels, large from 96² on. AR is the mean over the same thresholds of the recall of the surest 1, 10
// or 100 boxes of each image and category.
inline constexpr std::array<std::string_view, 12> kCocoFigures = {
    "AP",  "AP50", "AP75",  "AP_small", "AP_medium", "AP_large",
    "AR1", "AR10", "AR100", "AR_small", "AR_medium", "AR_large"};
using CocoFigures = std::array<double, kCocoFigures.size()>;  // 0…1; −1 where there is no object to find

inline constexpr std::size_t kCocoRecalls = 101;  // 0, 0.01 … 1

struct CocoCategory {
  std::int64_t id = 0;
  CocoFigures figures = {};
  // Where asked for and there are objects: [10 thresholds, 101 recalls], the greatest precision at that
  // recall or more, 0 where it is never reached; objects of all sizes.
  std::vector<double> precisions;
};

struct CocoResult {
  CocoFigures figures = {};              // means over the categories that have a figure
  std::vector<CocoCategory> categories;  // by id
  std::vector<std::string> warnings;     // of what the figures do not show
};

struct CocoOptions {
  bool curves = false;  // CocoCategory::precisions
};

// `difficult` is not looked at. Categories are spread over the OpenMP team; the bits do not depend on it.
// Without detections a figure is 0, or −1. Throws UserError as by_category does.
CocoResult evaluate_coco(const GroundTruth& truth, std::span<const Detection> detections,
                         const CocoOptions& options = {});

}  // namespace tandem::metrics
