// Doubts about the labels and boxes of a corpus although every file could be read: signs of mistakes that end
// in a figure near 0 after a training that looked well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/boxes/box_corpus.h"

namespace tandem::datasets {

// The error of a number of outputs that is not the classes and the background: names `key`, says which
// mistake it looks like, and what to say instead. "" when it is right.
std::string wrong_num_classes(const BoxClasses& classes, Index num_classes,
                              const std::string& key = "model.num_classes");

// A sentence each: a class that is called as the background is; two classes of one name; classes without a
// box; boxes that all lie within [0, 1], as normalised ones do; more than a tenth of the boxes over the
// border, as corners are that were taken for sizes; an annotation of id 0, which COCO's evaluation counts as
// not found (cocodataset/cocoapi#664).
std::vector<std::string> label_warnings(const BoxCorpus& corpus);

}  // namespace tandem::datasets
