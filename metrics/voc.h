// Average precision of PASCAL VOC (Everingham et al., "The PASCAL visual object classes challenge", IJCV
// 2010): equal to VOCevaldet of its development kit, at an IoU of at least 0.5.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/detections.h"

namespace tandem::metrics {

// Average precisions, 0…1.
struct VocFigures {
  double eleven_point = 0.0;  // VOC 2007: mean of the greatest precisions at recalls of at least 0, 0.1 … 1
  double area = 0.0;          // VOC 2010 and later: area below the precision envelope
};

// A point of the precision-recall curve: all detections with at least this score.
struct VocPoint {
  double score, recall, precision;
};

struct VocClass {
  std::int64_t id = 0;
  std::int64_t objects = 0;           // number, without difficult ones
  std::optional<VocFigures> figures;  // absent without objects
  std::vector<VocPoint> curve;        // if requested and there are objects
};

struct VocResult {
  std::optional<VocFigures> mean;  // over the classes that have figures; absent without one
  std::vector<VocClass> classes;   // by id
};

struct VocOptions {
  bool curves = false;  // VocClass::curve
};

// Each detection is matched to the object of its class and image with the greatest overlap, on ties the
// first. The first match of an object is right, later ones are wrong; matches of difficult objects do not
// count. Equal scores keep their order. `crowd` and `area` are ignored. Throws UserError as by_category does.
VocResult evaluate_voc(const GroundTruth& truth, std::span<const Detection> detections,
                       const VocOptions& options = {});

}  // namespace tandem::metrics
