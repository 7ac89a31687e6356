// One annotation file of PASCAL VOC: XML with the size of an image and the objects in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace tandem::datasets {

struct VocObject {
  std::string name;               // of its class
  double xmin, ymin, xmax, ymax;  // as the file has them; VOC counts from 1, the last pixel included
  bool difficult = false;
};

struct VocAnnotation {
  Index width = 0, height = 0;
  std::vector<VocObject> objects;  // in the order of the file
};

// Reads annotation/size and the objects right below the annotation, of each its own name, bndbox and
// difficult: parts and actions, which have names and boxes of their own, are not read. Coordinates may be
// any numbers; a difficult that is missing or empty is 0. Throws UserError in the name of `where`: with the
// line what is no XML, else naming the object what is missing or no number, and a size that is none.
VocAnnotation parse_voc_annotation(std::string_view xml, const std::string& where);

}  // namespace tandem::datasets
