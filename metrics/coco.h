// Average precision and recall of COCO (Lin et al., "Microsoft COCO: common objects in context", ECCV 2014):
// equal to pycocotools 2.0.11 for boxes, up to rounding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/detections.h"

namespace tandem::metrics {

// Names in the order of pycocotools. Plain AP is the mean over IoU thresholds 0.5, 0.55 … 0.95. Small objects
// have up to 32² pixels, large ones at least 96². AR is the mean recall over the same thresholds, for the 1,
// 10 or 100 highest-scoring boxes of each image and category.
inline constexpr std::array<std::string_view, 12> kCocoFigures = {
    "AP",  "AP50", "AP75",  "AP_small", "AP_medium", "AP_large",
    "AR1", "AR10", "AR100", "AR_small", "AR_medium", "AR_large"};
using CocoFigures = std::array<double, kCocoFigures.size()>;  // 0…1; −1 without objects

inline constexpr std::size_t kCocoRecalls = 101;  // 0, 0.01 … 1

struct CocoCategory {
  std::int64_t id = 0;
  CocoFigures figures = {};
  // Precision [10 thresholds, 101 recalls] for objects of all sizes: the greatest at that recall or more, 0
  // if it is never reached. Empty unless requested and there are objects.
  std::vector<double> precisions;
};

struct CocoResult {
  CocoFigures figures = {};              // means over the categories that have a figure
  std::vector<CocoCategory> categories;  // by id
  std::vector<std::string> warnings;     // about problems of the annotations
};

struct CocoOptions {
  bool curves = false;  // CocoCategory::precisions
};

// Ignores `difficult`. Threads share the categories; their number does not change any bit. Without
// detections a figure is 0, or −1 without objects. Throws UserError as by_category does.
CocoResult evaluate_coco(const GroundTruth& truth, std::span<const Detection> detections,
                         const CocoOptions& options = {});

}  // namespace tandem::metrics
