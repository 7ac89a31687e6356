// Detections in the result formats of COCO's and VOC's evaluation servers and kits. Numbers have 9
// significant digits, which distinguish all FP32 values.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "metrics/detections.h"

namespace tandem::tasks {

// A JSON array of {"image_id", "category_id", "bbox": [x, y, width, height], "score"}, one per line, sorted
// by image and descending score (stable). Throws UserError for a box or a score that is not finite.
std::string coco_results(std::span<const metrics::Detection> detections);

// "comp4_det_test_cat.txt" for "cat"; characters invalid in file names are escaped by files::as_file_name.
std::string voc_results_name(std::string_view class_name);

// Whether an image name is valid in VOC's results, where lines are split into words: not empty and without
// white space.
bool is_voc_id(std::string_view image_name);

// Lines "image score xmin ymin xmax ymax" of the detections of one class, in the order of coco_results;
// pixels count from 1. `image_names` maps an id to "000003". Throws UserError for an image without a valid
// name, and for a box or a score that is not finite.
std::string voc_results(std::span<const metrics::Detection> detections, std::int64_t category,
                        const std::map<std::int64_t, std::string>& image_names);

}  // namespace tandem::tasks
