// Detections in the formats that the evaluation servers and kits of COCO and VOC read. Numbers have 9
// significant digits, which tell all FP32 values apart.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "metrics/detections.h"

namespace tandem::tasks {

// A JSON array of {"image_id", "category_id", "bbox": [x, y, width, height], "score"}, a line each, by image
// and falling score; equal ones as given. Throws UserError for a box or a score that is not finite.
std::string coco_results(std::span<const metrics::Detection> detections);

// "comp4_det_test_cat.txt" of "cat"; what no file name has, as files::as_file_name writes it.
std::string voc_results_name(std::string_view class_name);

// Whether an image of that name can stand in VOC's results: its development kit reads a line as words, one of
// which is the name, so that it is neither empty nor holds white space.
bool is_voc_id(std::string_view image_name);

// The lines "image score xmin ymin xmax ymax" of the detections of one class, in the order of coco_results;
// pixels count from 1. `image_names` gives "000003" for an id. Throws UserError for an image without a name,
// a name that is empty or holds white space, and for a box or a score that is not finite.
std::string voc_results(std::span<const metrics::Detection> detections, std::int64_t category,
                        const std::map<std::int64_t, std::string>& image_names);

}  // namespace tandem::tasks
