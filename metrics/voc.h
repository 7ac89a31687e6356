// Average precision as PASCAL VOC reports it (Everingham et al., "The PASCAL visual object classes
// challenge", IJCV 2010): the figures of its development kit's VOCevaldet, at an overlap of at least 0.5.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "metrics/detections.h"

namespace tandem::metrics {

// 0…1.
struct VocFigures {
  double eleven_point = 0.0;  // VOC 2007: mean of the greatest precisions at recalls of at least 0, 0.1 … 1
  double area = 0.0;          // from 2010 on: area below the curve, made to fall
};

// What the surest detections have found, down to one of them.
struct VocPoint {
  double score, recall, precision;
};

struct VocClass {
  std::int64_t id = 0;
  std::int64_t objects = 0;           // to be found: those that are not difficult
  std::optional<VocFigures> figures;  // nothing without objects
  std::vector<VocPoint> curve;        // where asked for and there are objects
};

struct VocResult {
  std::optional<VocFigures> mean;  // over the classes that have figures; nothing without one
  std::vector<VocClass> classes;   // by id
};

struct VocOptions {
  bool curves = false;  // VocClass::curve
};

// A detection is of the object of its class and image that it overlaps most, of equal ones the first; right
// the first time, wrong afterwards, and neither where the object is difficult. Equal scores keep their order.
// `crowd` and `area` of an object are not looked at. Throws UserError as by_category does.
VocResult evaluate_voc(const GroundTruth& truth, std::span<const Detection> detections,
                       const VocOptions& options = {});

}  // namespace tandem::metrics
