// Description of a network's preprocessing, for programs that run an exported model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transforms/transform.h"

namespace tandem::tasks {

// Required preprocessing of an image of any size, and the meaning of the logits, for the metadata of ONNX
// files. docs/export.md describes the keys, with a program that follows them.
//
//   tandem.input        {"layout": "NCHW", "shape": [3,224,224], "channels": "RGB", "orientation": "exif",
//                        "unit": 255, "steps": […]}
//   tandem.mean, .std   [0.4914, …], per channel: x = (pixel / unit - mean) / std
//   tandem.class_names  ["airplane", …], in the order of the logits; [] if unknown
//
// Features have the layout "rows"; indices, unscaled integers, have "indices".
std::map<std::string, std::string> preprocessing(const datasets::DatasetInfo& info, Index image_size,
                                                 const std::vector<datasets::TransformSpec>& augment);

}  // namespace tandem::tasks
