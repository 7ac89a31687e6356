// Warnings about labels and boxes of a readable corpus: signs of mistakes that would lead to a metric near 0.
#pragma once

#include <string>
#include <vector>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// Error for a number of outputs other than the classes and the background: names `key`, the likely mistake,
// and the right value. "" if it is right.
std::string wrong_num_classes(const BoxClasses& classes, Index num_classes,
                              const std::string& key = "model.num_classes");

// One sentence each: a class with a name of the background; two classes of one name; classes without a box;
// boxes all within [0, 1], which are probably normalised; more than a tenth of the boxes across the border,
// whose sizes are probably corners; an annotation of id 0, which COCO's evaluation counts as not found
// (cocodataset/cocoapi#664).
std::vector<std::string> label_warnings(const BoxCorpus& corpus);

}  // namespace tandem::datasets
