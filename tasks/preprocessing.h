// The preprocessing of a sample for a network, for programs that run an exported one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transforms/transform.h"

namespace tandem::tasks {

// What a program has to do to an image of any size before the network takes it, and what the logits mean;
// goes into the metadata of ONNX files. docs/export.md describes the keys, with a program that follows them.
//
//   tandem.input        {"layout": "NCHW", "shape": [3,224,224], "channels": "RGB", "orientation": "exif",
//   "unit": 255, "steps": […]} tandem.mean, .std   [0.4914, …], per channel: x = (pixel / unit - mean) / std
//   tandem.class_names
//   ["airplane", …], in the order of the logits; [] where unknown
//
// Features have the layout "rows"; indices, integers that are taken as they are, have "indices".
std::map<std::string, std::string> preprocessing(const datasets::DatasetInfo& info, Index image_size,
                                                 const std::vector<datasets::TransformSpec>& augment);

}  // namespace tandem::tasks
